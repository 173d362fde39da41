// Health: parts, workers, open work, kill switches, invariants with their age, and the settings in force.

import type { Health, Setting, Switch } from "../api.gen.ts";
import { action, send } from "../api.ts";
import { now } from "../clock.ts";
import { type Data, useData } from "../data.ts";
import { count, plural } from "../format.ts";
import { ask } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Card, Facts, Mark, Name, PageHead, Pill, Show, State } from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { path, setQuery, place } from "../router.ts";
import { can } from "../session.ts";
import { type Href, urls } from "../urls.ts";
import { jsonText } from "../json_numbers.ts";

export function HealthPage() {
  const data = useData<Health>("/health", {}, { every: 5 });
  const switches = useData<readonly Switch[]>("/switches", {}, { every: 5 });
  return (
    <>
      <PageHead title="Health" mark={<Mark name="health" />} />
      <div class="page-body" key={path.value}>
        <div class="stack">
          <Show of={data} rows={10}>
            {(row) => (
              <>
                <div class="two-columns">
                  <Parts of={row} />
                  <Work of={row} />
                </div>
                <div class="two-columns">
                  <Workers of={row} />
                  <Switches of={switches} />
                </div>
                <Invariants of={row} />
              </>
            )}
          </Show>
          {can("admin") && <Settings />}
        </div>
      </div>
    </>
  );
}

function Parts({ of }: { of: Health }) {
  return (
    <Card title="Parts">
      <ul class="lines wide">
        {of.parts.map((part) => (
          <li key={part.name}>
            <Mark
              name={part.ok ? "succeeded" : "failed"}
              tone={part.ok ? "ok" : "bad"}
              label={part.ok ? "works" : "fails"}
            />
            <span class="grow">{part.name}</span>
            {(part.what ?? part.why) && (
              <span class={part.ok ? "tone-warn" : "tone-bad"}>
                <Name text={[part.what, part.why].filter(Boolean).join(": ")} />
              </span>
            )}
            {part.try && (
              <span class="dim">
                try: <Name text={part.try} />
              </span>
            )}
          </li>
        ))}
      </ul>
      <div class="card-end">
        <Facts
          of={[
            ["Database", of.database],
            ["Schema", of.schema],
            ["Broker", of.broker],
          ]}
        />
      </div>
    </Card>
  );
}

const OPEN: Readonly<Record<string, () => Href>> = {
  "queued executions": () => urls.executions({ state: "queued" }),
  "running executions": () => urls.executions({ state: "running" }),
  "pending events": () => urls.events({ state: "pending" }),
};

function Work({ of }: { of: Health }) {
  const open = Object.entries(of.open);
  return (
    <Card title="Open work">
      <ul class="lines wide">
        {open.map(([name, number]) => {
          const to = OPEN[name]?.();
          return (
            <li key={name}>
              <span class="grow">{to ? <Link to={to}>{name}</Link> : name}</span>
              <span class={number ? "bold" : "dim"}>{count(number)}</span>
            </li>
          );
        })}
        {Object.entries(of.sources).map(([state, number]) => (
          <li key={state}>
            <span class="grow">sources {state}</span>
            <span>{count(number)}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const BEAT_LATE = 15;

function Workers({ of }: { of: Health }) {
  return (
    <Card title={`Workers (${of.workers.length}), ${plural(of.slots, "slot")}`}>
      {of.workers.length === 0 && (
        <p class="tone-bad">
          <Mark name="warning" /> No worker is alive. Queued executions wait.
        </p>
      )}
      <ul class="lines wide">
        {of.workers.map((worker) => {
          const late = (now.value - Date.parse(worker.seen_at)) / 1000 > BEAT_LATE;
          return (
            <li key={worker.id}>
              <span class="grow mono">
                <Name text={worker.id} />
              </span>
              <Pill tone={worker.isolation === "none" ? "bad" : ""}>tier {worker.isolation}</Pill>
              <span>{plural(worker.slots, "slot")}</span>
              <span class={late ? "tone-warn" : "dim"}>
                beat <Ago time={worker.seen_at} />
              </span>
            </li>
          );
        })}
      </ul>
    </Card>
  );
}

const MEANS: Readonly<Record<string, string>> = {
  triggers: "While they are halted, no trigger fires; events wait.",
  executions: "While they are halted, none starts; they wait.",
};

function Switches({ of }: { of: Data<readonly Switch[]> }) {
  return (
    <Card title="Kill switches">
      <Show of={of} rows={2}>
        {(switches) => (
          <ul class="lines wide">
            {switches.map((one) => (
              <li key={one.name}>
                <State state={one.on ? "open" : "closed"} bare />
                <span class="grow">
                  {one.name} <span class="dim">{MEANS[one.name]}</span>
                  {one.on && (
                    <p class="tone-bad">
                      halted by <Name text={one.author} /> <Ago time={one.time} />
                      {one.note && (
                        <>
                          : <Name text={one.note} />
                        </>
                      )}
                    </p>
                  )}
                </span>
                <Button
                  needs="operate"
                  {...(one.on ? {} : { kind: "danger" as const })}
                  onClick={() => (one.on ? void release(one.name, of) : askHalt(one.name, of))}
                >
                  {one.on ? "Release" : "Halt"}
                </Button>
              </li>
            ))}
          </ul>
        )}
      </Show>
    </Card>
  );
}

function askHalt(name: string, of: Data<readonly Switch[]>): void {
  ask({
    title: `Halt ${name}?`,
    body: `It concerns the whole installation. ${MEANS[name] ?? "It stops."}`,
    verb: "Halt",
    danger: true,
    ask: { label: "Why", required: true, placeholder: "shown on every page" },
    run: async (note) => {
      of.put(await send<readonly Switch[]>("POST", action("halt", "switches", name), { note }));
      toast({ text: `${name} is halted`, undo: () => void release(name, of) });
    },
  });
}

async function release(name: string, of: Data<readonly Switch[]>): Promise<void> {
  try {
    of.put(await send<readonly Switch[]>("POST", action("release", "switches", name)));
    toast({ text: `${name} goes on` });
  } catch (error) {
    toastError(error);
  }
}

function Invariants({ of }: { of: Health }) {
  const broken = of.verification.filter((one) => one.count > 0).length;
  return (
    <Card title={broken ? `Invariants: ${broken} broken` : "Invariants"}>
      {of.verification.length === 0 && <p class="dim">They were not checked yet. The scheduler checks them.</p>}
      <ul class="lines wide">
        {of.verification.map((one) => (
          <li key={one.code}>
            <Mark
              name={one.count ? "failed" : "succeeded"}
              tone={one.count ? "bad" : "ok"}
              label={one.count ? "broken" : "holds"}
            />
            <span class="mono code-number">{one.code}</span>
            <span class="grow">
              {one.what}
              {one.count > 0 && (
                <p class="tone-bad">
                  {plural(one.count, "violation")}: <Name text={jsonText(one.examples)} mono />
                </p>
              )}
            </span>
            <span class="dim">
              <Ago time={one.time} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Settings() {
  const data = useData<readonly Setting[]>("/settings");
  const text = (place.value.query.get("setting") ?? "").toLowerCase();
  return (
    <Card title="Settings in force">
      <input
        class="filter-text"
        type="search"
        placeholder="name"
        aria-label="Filter settings"
        value={text}
        onInput={(event) => setQuery({ setting: event.currentTarget.value || null })}
      />
      <Show of={data} rows={10}>
        {(rows) => (
          <ul class="lines wide settings">
            {rows
              .filter((row) => row.name.includes(text))
              .map((row) => (
                <li key={row.name} title={row.description}>
                  <code class="setting-name">{row.name}</code>
                  <span class="grow mono">
                    <Name text={row.value === null ? "–" : String(row.value)} />
                  </span>
                  <span class={row.source === "default" ? "dim" : "bold"}>{row.source}</span>
                </li>
              ))}
          </ul>
        )}
      </Show>
    </Card>
  );
}
