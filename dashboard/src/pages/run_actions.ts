// What one can do with a run: pause it, let it go on, cancel it.

import type { Run, RunRow } from "../api.gen.ts";
import { action, send } from "../api.ts";
import { ask } from "../parts/dialog.tsx";
import { toast } from "../parts/toast.tsx";
import { isOpenRun } from "../run_states.ts";

type Acted = Pick<RunRow, "id" | "state" | "pause_requested_at">;

export function canPause(row: Acted): boolean {
  return isOpenRun(row.state) && row.pause_requested_at === null;
}

export function canResume(row: Acted): boolean {
  return isOpenRun(row.state) && row.pause_requested_at !== null;
}

export function canCancel(row: Acted): boolean {
  return isOpenRun(row.state);
}

const act = (verb: string, id: string) => send<Run>("POST", action(verb, "runs", id), {}, { once: true });

export function askPause(id: string, done: () => void): void {
  ask({
    title: "Pause the run?",
    body: "No further step starts. Its open step, and what it waits for, may still end. The pause costs no time of it.",
    verb: "Pause",
    run: async () => {
      await act("pause", id);
      toast({ text: "It pauses" });
      done();
    },
  });
}

export function askResume(id: string, done: () => void): void {
  ask({
    title: "Let the run go on?",
    body: "Its next step starts as soon as what it waits for has ended.",
    verb: "Resume",
    run: async () => {
      await act("resume", id);
      toast({ text: "It goes on" });
      done();
    },
  });
}

export function askCancel(id: string, done: () => void): void {
  ask({
    title: "Cancel the run?",
    body: "Its open step, its open questions and the runs that it has started end with it. What is done stays done.",
    verb: "Cancel the run",
    danger: true,
    run: async () => {
      await act("cancel", id);
      toast({ text: "The run is cancelled" });
      done();
    },
  });
}
