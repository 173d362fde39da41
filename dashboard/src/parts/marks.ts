// The marks, drawn on 16 × 16: lines of 1.5 in the colour of the text; "f" is filled.

export type Shape = readonly (readonly ["s" | "f", string])[];

const ring = "M8 2.2a5.8 5.8 0 1 1 0 11.6a5.8 5.8 0 0 1 0-11.6z";
const small = "M8 3.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9z";

export const MARKS = {
  queued: [["s", ring]],
  held: [["s", ring], ["f", "M8 4.2v3.8h3.8A3.8 3.8 0 0 0 8 4.2z"]],
  running: [["s", ring], ["f", "M8 4.6a3.4 3.4 0 0 1 0 6.8z"]],
  succeeded: [["s", ring], ["s", "M5.4 8.2l1.9 1.9l3.4-3.9"]],
  failed: [["s", ring], ["s", "M5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2"]],
  timed_out: [["s", "M4.5 2.5h7M4.5 13.5h7M5.5 2.5c0 3 2.5 3.6 2.5 5.5s-2.5 2.5-2.5 5.5M10.5 2.5c0 3-2.5 3.6-2.5 5.5s2.5 2.5 2.5 5.5"]],
  dead: [["s", "M3 3h10v10h-10zM3 3l10 10M13 3l-10 10"]],
  cancelled: [["s", ring], ["s", "M4 12l8-8"]],
  expired: [["s", "M8 2.2a5.8 5.8 0 0 1 3.4 1.1M13.6 6.5a5.8 5.8 0 0 1-.6 4.4M10.2 13.4a5.8 5.8 0 0 1-4.4 0M3 10.9a5.8 5.8 0 0 1-.6-4.4M4.6 3.3a5.8 5.8 0 0 1 .5-.4"]],
  suppressed: [["s", small], ["s", "M4.8 11.2l6.4-6.4M2 15h12"]],
  skipped: [["s", "M3 4l4 4l-4 4M9 4l4 4l-4 4"]],
  waiting: [["s", ring], ["s", "M8 4.8v3.4l2.2 1.4"]],
  paused: [["s", ring], ["s", "M6.5 5.8v4.4M9.5 5.8v4.4"]],
  retrying: [["s", "M13 8a5 5 0 1 1-1.6-3.7M13 2.2v2.8h-2.8"]],
  joined: [["s", "M3 3.5c0 4 5 2.5 5 6.5v4M13 3.5c0 4-5 2.5-5 6.5M5.8 12l2.2 2.2l2.2-2.2"]],
  find: [["s", "M7 2.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 0 1 0-9zM10.4 10.4l3.4 3.4"]],
  nomatch: [["s", "M8 4a4 4 0 1 1 0 8a4 4 0 0 1 0-8z"]],
  event: [["s", "M8 2l6 6l-6 6l-6-6z"]],
  trigger: [["s", "M9.5 1.8l-5.5 7h3.6l-1.1 5.4l5.5-7h-3.6z"]],
  function: [["s", "M12 3.5c-2.5-1.5-4 0-4.4 2.5l-.9 5c-.3 2-1.4 3-3.2 2.2M5 7.5h5.5"]],
  schedule: [["s", ring], ["s", "M8 4.6v3.6h3"]],
  file: [["s", "M4 2h5l3 3v9h-8zM9 2v3h3M6 8.5h4M6 11h4"]],
  webhook: [["s", "M2 8h8M7 4.8l3.2 3.2l-3.2 3.2M13.5 3v10"]],
  queue: [["s", "M3 4h10M3 8h10M3 12h10"]],
  secret: [["s", "M5.5 5.5a2.7 2.7 0 1 1 0 5.4a2.7 2.7 0 0 1 0-5.4zM8.2 8.2h5.3v2.6M11 8.2v1.9"]],
  person: [["s", "M8 2.5a2.7 2.7 0 1 1 0 5.4a2.7 2.7 0 0 1 0-5.4zM3 14c.4-3 2.3-4.2 5-4.2s4.6 1.2 5 4.2"]],
  pack: [["s", "M2.5 5l5.5-2.8l5.5 2.8v6l-5.5 2.8l-5.5-2.8zM2.5 5l5.5 2.8l5.5-2.8M8 7.8v6"]],
  map: [["s", "M2.5 6.5h4v3h-4zM10 2.5h3.5v3h-3.5zM10 10.5h3.5v3h-3.5zM6.5 8h1.7v-4h1.8M8.2 8v4h1.8"]],
  approval: [["s", "M8 1.8l5 1.9v4.1c0 3.2-2 5.2-5 6.4c-3-1.2-5-3.2-5-6.4v-4.1zM5.7 7.9l1.7 1.7l3-3.4"]],
  audit: [["s", "M3 2.5h10v11h-10zM5.5 5.5h5M5.5 8h5M5.5 10.5h3"]],
  health: [["s", "M1.5 8.5h3l1.7-4.5l2.8 8l1.8-3.5h3.7"]],
  overview: [["s", "M2.5 2.5h4.5v4.5h-4.5zM9 2.5h4.5v4.5h-4.5zM2.5 9h4.5v4.5h-4.5zM9 9h4.5v4.5h-4.5z"]],
  agent: [["s", "M3 6.5h10v6.5h-10zM8 6.5v-3M6 10v-.5M10 10v-.5"], ["f", "M8 1.6a1.2 1.2 0 1 1 0 2.4a1.2 1.2 0 0 1 0-2.4z"]],
  run: [["s", "M2.5 12.5h3.5v-4h3.5v-4h4M11.5 2.5l2 2l-2 2"]],
  model: [["s", "M8 1.8l5.4 3.1v6.2l-5.4 3.1l-5.4-3.1v-6.2z"], ["f", "M8 6a2 2 0 1 1 0 4a2 2 0 0 1 0-4z"]],
  call: [["s", "M2.5 3h11v8h-5.5l-3 2.6v-2.6h-2.5z"]],
  spend: [["s", ring], ["s", "M10.1 6c-.6-1.1-4-1.2-4 .6c0 1.7 4 .9 4 2.8c0 1.8-3.6 1.7-4.2.4M8 3.9v8.2"]],
  warning: [["s", "M8 2.2l6.3 11.3h-12.6zM8 6.3v3.4M8 11.3v.4"]],
} as const satisfies Record<string, Shape>;

export type MarkName = keyof typeof MARKS;

export type Tone = "ok" | "run" | "bad" | "warn" | "hold" | "off";

interface Look {
  readonly mark: MarkName;
  readonly tone: Tone;
  /** The state in words. */
  readonly text: string;
}

const look = (mark: MarkName, tone: Tone, text: string): Look => ({ mark, tone, text });

export const STATES: Readonly<Record<string, Look>> = {
  queued: look("queued", "off", "queued"),
  waiting: look("waiting", "hold", "waiting"),
  held: look("held", "hold", "held"),
  running: look("running", "run", "running"),
  retrying: look("retrying", "warn", "retrying"),
  succeeded: look("succeeded", "ok", "succeeded"),
  failed: look("failed", "bad", "failed"),
  timed_out: look("timed_out", "bad", "timed out"),
  dead: look("dead", "bad", "dead"),
  cancelled: look("cancelled", "off", "cancelled"),
  expired: look("expired", "off", "expired"),
  suppressed: look("suppressed", "warn", "suppressed"),
  skipped: look("skipped", "off", "skipped"),
  joined: look("joined", "off", "joined"),
  fired: look("succeeded", "ok", "fired"),
  "no match": look("nomatch", "off", "no match"),
  no_match: look("nomatch", "off", "no match"),
  pending: look("queued", "off", "pending"),
  routed: look("succeeded", "ok", "routed"),
  quarantined: look("warning", "bad", "quarantined"),
  enabled: look("succeeded", "ok", "enabled"),
  active: look("succeeded", "ok", "active"),
  disabled: look("cancelled", "off", "disabled"),
  paused: look("paused", "hold", "paused"),
  shadow: look("joined", "hold", "shadow"),
  error: look("warning", "bad", "error"),
  open: look("warning", "warn", "open"),
  closed: look("succeeded", "ok", "closed"),
  sent: look("running", "run", "sent"),
  unknown: look("warning", "warn", "answer lost"),
  refused: look("suppressed", "warn", "refused"),
  half_open: look("retrying", "warn", "half open"),
  waiting_model: look("waiting", "run", "waits for a model"),
  waiting_children: look("waiting", "run", "waits for executions"),
  waiting_person: look("approval", "hold", "waits for a person"),
  waiting_proposal: look("approval", "hold", "waits for a proposal"),
  stopped: look("suppressed", "warn", "stopped"),
  needs_human: look("warning", "warn", "needs a person"),
  approved: look("succeeded", "ok", "approved"),
  edited: look("succeeded", "ok", "approved with other arguments"),
  answered: look("succeeded", "ok", "answered"),
  rejected: look("failed", "bad", "rejected"),
  withdrawn: look("cancelled", "off", "withdrawn"),
};

/** Mark, colour and words of a state. A state that is not known is shown as it is. */
export function lookOf(state: string): Look {
  return STATES[state] ?? look("nomatch", "off", state.replaceAll("_", " "));
}
