// The form of a source: from the schema of its kind. A schedule has fields of its own, and shows its times while one
// types.

import { useMemo, useState } from "preact/hooks";
import type { Kind, PreviewedTimes, SavedSource, Source } from "../api.gen.ts";
import { asProblem, type Problem, route, send } from "../api.ts";
import { useAsked } from "../asked.ts";
import { configSchema } from "../config_schema.ts";
import { type Data, useData } from "../data.ts";
import { visible } from "../format.ts";
import { initial, typedJson } from "../json_form.ts";
import { useKeys } from "../keys.ts";
import { Form } from "../parts/form.tsx";
import { Button } from "../parts/link.tsx";
import { Card, Fault, Mark, PageHead, Show } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { go } from "../router.ts";
import type { Page } from "../rows.ts";
import { place } from "../router.ts";
import { TimesTable } from "./schedule_times.tsx";
import { GROUPS, QUEUES, SCHEDULES, type SourceGroup, sourcePage, WATCHES, WEBHOOKS } from "./sources.tsx";

type Config = Readonly<Record<string, unknown>>;

const TIMING = ["cron", "every", "at"] as const;
type Timing = (typeof TIMING)[number];
const SCHEDULE_FIELDS = [...TIMING, "timezone"];
const WORDS: Readonly<Record<Timing, { title: string; field: string; hint: string }>> = {
  cron: { title: "Cron", field: "Expression", hint: "minute hour day month weekday, such as 0 7 * * 1-5, or @daily" },
  every: { title: "Interval", field: "Every", hint: "such as 90s, 15m, 6h or 1d" },
  at: { title: "Dates", field: "Dates and times", hint: "one a line, such as 2026-12-24T18:00" },
};

export function NewSource({ group }: { group: SourceGroup }) {
  const kinds = useData<readonly Kind[]>("/sources/kinds");
  const others = (kinds.data ?? []).filter((one) => !GROUPS.some((other) => other.kind === one.kind));
  const offered = group === WATCHES ? [group.kind, ...others.map((one) => one.kind)] : [group.kind];
  const asked = place.value.query.get("kind");
  const [kind, setKind] = useState(asked ?? group.kind);
  return (
    <>
      <PageHead title={`New ${group.one}`} mark={<Mark name={group.mark} />} />
      <div class="page-body">
        <Show of={kinds}>
          {(found) => (
            <>
              {offered.length > 1 && (
                <label class="field narrow">
                  <span>Kind</span>
                  <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
                    {offered.map((one) => (
                      <option key={one} value={one}>
                        {one}
                      </option>
                    ))}
                  </select>
                  <span class="dim">{found.find((other) => other.kind === kind)?.summary}</span>
                </label>
              )}
              <SourceForm key={kind} group={group} kind={found.find((one) => one.kind === kind)} source={null} />
            </>
          )}
        </Show>
      </div>
    </>
  );
}

export function EditSource({ of, data }: { of: Source; data: Data<Source> }) {
  const kinds = useData<readonly Kind[]>("/sources/kinds");
  const group = GROUPS.find((one) => one.kind === of.kind) ?? WATCHES;
  return (
    <Show of={kinds}>
      {(found) => (
        <SourceForm group={group} kind={found.find((one) => one.kind === of.kind)} source={of} saved={data.put} />
      )}
    </Show>
  );
}

interface FormProps {
  readonly group: SourceGroup;
  readonly kind: Kind | undefined;
  readonly source: Source | null;
  readonly saved?: (row: Source) => void;
}

function SourceForm({ group, kind, source, saved }: FormProps) {
  const isSchedule = group === SCHEDULES;
  const schema = useMemo(
    () => configSchema((kind?.config_schema ?? {}) as Config, isSchedule ? SCHEDULE_FIELDS : []),
    [kind],
  );
  // A version that came while one types is not taken over: the save says that there is a newer one.
  const [base] = useState(source);
  const [name, setName] = useState(source?.name ?? "");
  const [config, setConfig] = useState<Config>(
    () => (source?.config as Config | undefined) ?? ((initial(schema, schema) ?? {}) as Config),
  );
  const [fn, setFunction] = useState(source?.function ?? "");
  const [input, setInput] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  if (!kind) return <Fault error={new Error("this kind of sources is not installed on the server")} />;
  const given = input.trim() ? typedJson(input) : {};
  const lacks = !name.trim() ? "It needs a name." : given.problem === undefined ? "" : "Its input is not JSON.";

  const save = async () => {
    if (busy) return;
    if (lacks) {
      toast({ text: lacks, tone: "bad" });
      return;
    }
    setBusy(true);
    setProblem(null);
    try {
      const runs = isSchedule && fn.trim() && fn.trim() !== base?.function;
      const withInput = isSchedule && fn.trim() && given.value !== undefined;
      const body = {
        config,
        ...(runs || withInput ? { function: fn.trim() } : {}),
        ...(withInput ? { input: given.value } : {}),
      };
      const made = await send<SavedSource>("PUT", route("sources", kind.kind, name.trim()), body, {
        ifMatch: base?.version ?? 0,
      });
      saved?.(made);
      toast({ text: made.created ? `${made.name} was saved` : `${made.name} is as it was` });
      for (const one of made.warnings) toast({ text: one, tone: "bad" });
      go(sourcePage(group, made));
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  useKeys("Form", [{ keys: "Ctrl+S", label: "Save", run: () => void save() }]);
  return (
    <form
      class={isSchedule ? "two-columns" : "source-form"}
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <div class="stack">
        <Card title={source ? `Version ${source.version}` : "What"}>
          {!source && (
            <label class="field">
              <span>Name</span>
              <input
                value={name}
                required
                autocomplete="off"
                onInput={(event) => setName(event.currentTarget.value)}
              />
            </label>
          )}
          {isSchedule && <ScheduleFields config={config} setConfig={setConfig} fn={fn} setFunction={setFunction} />}
          {isSchedule && fn.trim() && (
            <label class="field">
              <span>Input, JSON with {"{{ … }}"} expressions; empty leaves it</span>
              <textarea
                rows={2}
                spellcheck={false}
                value={input}
                placeholder={`{"day": "{{ event.data.local_time }}"}`}
                onInput={(event) => setInput(event.currentTarget.value)}
              />
            </label>
          )}
          {given.problem && <p class="field-fault">The input is not JSON: {visible(given.problem)}</p>}
          {isSchedule ? (
            <details>
              <summary>More: overlap, missed times, start and end, data</summary>
              <Form schema={schema} value={config} onChange={(value) => setConfig(value as Config)} label="More" />
            </details>
          ) : (
            <Form
              schema={schema}
              value={config}
              onChange={(value) => setConfig(value as Config)}
              faults={problem?.faults ?? []}
              pointer="/config"
              label="Configuration"
            />
          )}
          {problem && <Fault error={problem} />}
          <div class="form-actions">
            <Button
              kind="primary"
              type="submit"
              needs="author"
              keys="Ctrl S"
              busy={busy}
              disabled={lacks !== ""}
              why={lacks}
            >
              Save
            </Button>
          </div>
        </Card>
      </div>
      {isSchedule && <Preview config={config} />}
    </form>
  );
}

function timingOf(config: Config): Timing {
  return TIMING.find((one) => config[one] !== undefined && config[one] !== null) ?? "cron";
}

function ScheduleFields({ config, setConfig, fn, setFunction }: {
  config: Config;
  setConfig: (config: Config) => void;
  fn: string;
  setFunction: (name: string) => void;
}) {
  const [timing, setTiming] = useState<Timing>(timingOf(config));
  const functions = useData<Page<{ name: string }>>("/functions", { limit: 1000, fields: "name" });
  const zones = useMemo(() => ["UTC", ...Intl.supportedValuesOf("timeZone")], []);
  const value = config[timing];
  const text = Array.isArray(value) ? value.join("\n") : String(value ?? "");
  const put = (changes: Config) => {
    const next: Record<string, unknown> = { ...config, ...changes };
    for (const [name, one] of Object.entries(next)) if (one === undefined) delete next[name];
    setConfig(next);
  };
  const time = (typed: string) =>
    put({
      cron: undefined,
      every: undefined,
      at: undefined,
      [timing]: !typed.trim() ? undefined : timing === "at" ? typed.split("\n").filter((one) => one.trim()) : typed,
    });
  return (
    <>
      <fieldset class="choice">
        <legend>Times</legend>
        {TIMING.map((one) => (
          <label key={one} class="filter-switch">
            <input
              type="radio"
              name="timing"
              checked={timing === one}
              onChange={() => {
                setTiming(one);
                put({ cron: undefined, every: undefined, at: undefined });
              }}
            />{" "}
            {WORDS[one].title}
          </label>
        ))}
      </fieldset>
      <div class="field">
        <label for="times">{WORDS[timing].field}</label>
        {timing === "at" ? (
          <textarea
            id="times"
            rows={3}
            aria-describedby="times-about"
            value={text}
            onInput={(event) => time(event.currentTarget.value)}
          />
        ) : (
          <input
            id="times"
            class="mono"
            aria-describedby="times-about"
            value={text}
            autocomplete="off"
            onInput={(event) => time(event.currentTarget.value)}
          />
        )}
        <p class="dim" id="times-about">
          {WORDS[timing].hint}
        </p>
      </div>
      <label class="field">
        <span>Time zone</span>
        <input
          list="zones"
          value={String(config["timezone"] ?? "UTC")}
          autocomplete="off"
          onInput={(event) => put({ timezone: event.currentTarget.value })}
        />
        <datalist id="zones">
          {zones.map((zone) => (
            <option key={zone} value={zone} />
          ))}
        </datalist>
      </label>
      <label class="field">
        <span>Function to run; empty leaves it to triggers</span>
        <input
          list="functions"
          value={fn}
          autocomplete="off"
          onInput={(event) => setFunction(event.currentTarget.value)}
        />
        <datalist id="functions">
          {(functions.data?.items ?? []).map((one) => (
            <option key={one.name} value={one.name} />
          ))}
        </datalist>
      </label>
    </>
  );
}

const SHOWN = 3;

function Preview({ config }: { config: Config }) {
  const has = TIMING.some((one) => config[one] !== undefined && config[one] !== null);
  const body = has ? { config, count: SHOWN } : null;
  const { answer, error, stale } = useAsked<PreviewedTimes>("/sources/schedule:preview", body, 150);
  const zone = String(config["timezone"] ?? "UTC");
  const times = answer?.times ?? [];
  const changes = answer?.after_changes ?? [];
  return (
    <Card title="When it ticks">
      {!has && <p class="dim">The next times appear here while you type.</p>}
      {has && error && <Fault error={error} />}
      {has && !error && answer?.problem && <p class="field-fault">{visible(answer.problem)}</p>}
      {has && !error && times.length > 0 && (
        <div class={stale ? "preview stale stack" : "preview stack"}>
          <TimesTable times={times} zone={zone} />
          {changes.length > 0 && (
            <>
              <h3>First times after clocks change</h3>
              <TimesTable times={changes} zone={zone} />
            </>
          )}
        </div>
      )}
    </Card>
  );
}

export const NewSchedulePage = () => <NewSource key="schedules" group={SCHEDULES} />;
export const NewWatchPage = () => <NewSource key="watches" group={WATCHES} />;
export const NewWebhookPage = () => <NewSource key="webhooks" group={WEBHOOKS} />;
export const NewQueuePage = () => <NewSource key="queues" group={QUEUES} />;
