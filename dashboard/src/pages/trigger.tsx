// A trigger: its rule with a preview, what it decided, what waits for it, and its versions.

import { useEffect, useState } from "preact/hooks";
import type { FiringRow, Fired, Flow, FlowPart, DryRun, Trigger, TriggerVersion } from "../api.gen.ts";
import { action, route, send } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { count, plural, visible } from "../format.ts";
import { useKeys } from "../keys.ts";
import { useFreshList } from "../lists.ts";
import { ask, Dialog } from "../parts/dialog.tsx";
import { canonical, Diff } from "../parts/diff.tsx";
import { chosenFilters, clearFilters, type Filter, FilterBar } from "../parts/filter_bar.tsx";
import { Json } from "../parts/json.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import {
  Ago,
  Card,
  currentTab,
  Empty,
  Facts,
  Mark,
  More,
  Name,
  PageHead,
  PayloadText,
  Pill,
  Show,
  State,
  TabPanel,
  Tabs,
  tabKeys,
  type Tab,
} from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { REASON_CHOICES, REASONS } from "../reasons.ts";
import { go, place, setQuery } from "../router.ts";
import { isRedacted } from "../rows.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { draftFrom, essence } from "../trigger_draft.ts";
import { keepDraft } from "../drafts.ts";
import { Labels } from "./functions.tsx";
import { ClauseList, type Rule, RuleEditor } from "./trigger_rule.tsx";

const TABS: readonly Tab[] = [
  { id: "rule", title: "Rule" },
  { id: "firings", title: "Firings" },
  { id: "flow", title: "Flow" },
  { id: "versions", title: "Versions" },
];

export function TriggerPage({ name }: { name: string }) {
  const data = useData<Trigger>(route("triggers", name), {}, { every: 15 });
  const tab = currentTab(TABS);
  const row = data.data;
  const [tried, setTried] = useState<DryRun | null>(null);
  const event = place.value.query.get("event");
  const mayOperate = can("operate");

  const dryRun = async () => {
    if (!event) return toast({ text: "Choose an event of the preview first" });
    try {
      setTried(await send<DryRun>("POST", action("test", "triggers", name), { event }));
    } catch (error) {
      toastError(error);
    }
  };
  const pause = () => row && (row.state === "paused" ? void resume(name, data) : askPause(name, data));
  useKeys("Trigger", [
    ...tabKeys(TABS),
    { keys: "p", label: row?.state === "paused" ? "Resume" : "Pause", run: () => pause(), when: mayOperate },
    { keys: "d", label: "Dry run", run: () => void dryRun(), when: mayOperate },
  ]);
  return (
    <>
      <PageHead
        title={<Name text={name} />}
        mark={<Mark name="trigger" />}
        waits={isPending(data)}
        actions={
          row && (
            <>
              <Button needs="operate" keys="p" onClick={() => pause()}>
                {row.state === "paused" ? "Resume" : "Pause"}
              </Button>
              {row.state === "shadow" && (
                <Button needs="author" onClick={() => askPromote(name, data)}>
                  Promote
                </Button>
              )}
              <Button
                needs="operate"
                keys="d"
                disabled={!event}
                why="Choose an event of the preview first."
                onClick={() => void dryRun()}
              >
                Dry run
              </Button>
              <Button
                needs="operate"
                disabled={!event}
                why="Choose an event of the preview first."
                onClick={() => event && askFire(row, event)}
              >
                Fire…
              </Button>
              <Button needs="author" kind="plain" onClick={() => askDelete(name)}>
                Delete
              </Button>
            </>
          )
        }
        note={row && <Notes row={row} />}
      >
        {row && (
          <>
            <State state={row.state} />
            <span>v{row.version}</span>
            <span>
              runs{" "}
              <Link to={urls.function(row.function.split("@")[0] ?? row.function)}>
                <Name text={row.function} />
              </Link>
            </span>
            <span>{count(row.fired_24h)} fired in 24 h</span>
            {row.suppressed_24h > 0 && <span class="tone-warn">{count(row.suppressed_24h)} stopped</span>}
            {row.last_at && (
              <span>
                last <Ago time={row.last_at} />
              </span>
            )}
            <Labels of={row.labels} />
          </>
        )}
      </PageHead>
      {row && <Tabs tabs={TABS} current={tab} label="Trigger" />}
      <Show of={data}>
        {(found) => (
          <TabPanel id={tab}>
            {tab === "rule" && (
              <RuleEditor stored={ruleOf(found)} name={name} onSaved={(saved) => data.put(saved)} />
            )}
            {tab === "firings" && <FiringsTab name={name} />}
            {tab === "flow" && <FlowTab name={name} />}
            {tab === "versions" && <VersionsTab row={found} />}
          </TabPanel>
        )}
      </Show>
      {tried && <DryRunDialog of={tried} onClose={() => setTried(null)} />}
    </>
  );
}

const ruleOf = (row: Trigger): Rule => ({
  version: row.version,
  definition: row.definition,
  cycle: row.cycle,
  warnings: row.warnings,
});

function Notes({ row }: { row: Trigger }) {
  return (
    <>
      {row.note && (
        <p>
          “<Name text={row.note} />”
        </p>
      )}
      {row.breaker && (
        <p class="tone-warn">
          The breaker is open since <Ago time={row.breaker.since} />; it tries again{" "}
          <Ago time={row.breaker.open_until} />.
        </p>
      )}
      {row.failure && (
        <p class="tone-bad">
          {plural(row.failure.count, "match", "matches")} failed: {row.failure.reason.replaceAll("_", " ")}.{" "}
          <PayloadText text={row.failure.error} /> <More to={urls.event(row.failure.event_id)}>the last event</More>
        </p>
      )}
      {row.warnings.map((text) => (
        <p key={text} class="tone-warn">
          <Name text={text} />
        </p>
      ))}
    </>
  );
}

/** A trigger that does not exist yet; `?event=` is the event that it is made from. */
export function NewTriggerPage() {
  return (
    <>
      <PageHead
        title="New trigger"
        mark={<Mark name="trigger" />}
        actions={<LinkButton to={urls.triggers()}>Cancel</LinkButton>}
      />
      <div class="page-body">
        <RuleEditor stored={null} name={null} onSaved={(saved) => go(urls.trigger(saved.name))} />
      </div>
    </>
  );
}

function askPause(name: string, data: Data<Trigger>): void {
  ask({
    title: `Pause ${name}?`,
    body: "Its matches are suppressed and recorded until it is resumed.",
    verb: "Pause",
    ask: { label: "Note", placeholder: "why" },
    run: async (note) => {
      data.put(await send<Trigger>("POST", action("pause", "triggers", name), { note }, { once: true }));
      toast({ text: `${name} is paused`, undo: () => void resume(name, data) });
    },
  });
}

async function resume(name: string, data: Data<Trigger>): Promise<void> {
  try {
    data.put(await send<Trigger>("POST", action("resume", "triggers", name), {}, { once: true }));
    toast({
      text: `${name} is resumed`,
      link: { to: urls.trigger(name, { tab: "firings", reason: "trigger_paused" }), text: "what was stopped" },
    });
  } catch (error) {
    toastError(error);
  }
}

function askPromote(name: string, data: Data<Trigger>): void {
  ask({
    title: `Promote ${name}?`,
    body: "It runs its function from now on. In shadow mode it only recorded what it would have done.",
    verb: "Promote",
    run: async () => {
      data.put(await send<Trigger>("POST", action("promote", "triggers", name), {}, { once: true }));
      toast({ text: `${name} is enabled` });
    },
  });
}

function askDelete(name: string): void {
  ask({
    title: `Delete ${name}?`,
    body: "Its firings and versions stay readable.",
    verb: "Delete the trigger",
    typed: name,
    run: async () => {
      await send("DELETE", route("triggers", name));
      toast({ text: `${name} is deleted` });
      go(urls.triggers());
    },
  });
}

function askFire(row: Trigger, event: string): void {
  ask({
    title: `Fire ${row.name} for this event?`,
    body: `It starts one execution of ${row.function}. Guards, flow control and a pause do not stop it.`,
    verb: "Fire",
    typed: row.name,
    run: async () => {
      const fired = await send<Fired>(
        "POST",
        action("fire", "triggers", row.name),
        { event },
        { once: true },
      );
      toast({ text: `${row.name} fired` });
      if (fired.execution_id) go(urls.execution(fired.execution_id));
    },
  });
}

function DryRunDialog({ of, onClose }: { of: DryRun; onClose: () => void }) {
  return (
    <Dialog title={`Dry run of ${of.trigger} v${of.version}`} wide onClose={onClose}>
      <div class="stack dialog-scroll" tabIndex={0} role="group" aria-label="Result">
        <p class={of.fires ? "tone-ok" : "tone-bad"}>
          <Mark name={of.fires ? "succeeded" : "failed"} />{" "}
          {of.fires ? `It would run ${of.function}.` : "It would not fire."}
        </p>
        {of.problem && (
          <p class="tone-bad">
            <PayloadText text={of.problem} />
          </p>
        )}
        <ClauseList of={of.clauses} />
        {of.condition && (
          <p>
            <Mark name={of.condition.holds ? "succeeded" : "failed"} tone={of.condition.holds ? "ok" : "bad"} />{" "}
            <code>{of.condition.text}</code>
          </p>
        )}
        {of.fires && <Json value={of.input} label="Input" />}
        {of.undecided.length > 0 && (
          <p class="dim">
            These decide when it happens: {of.undecided.map((one) => one.replaceAll("_", " ")).join(", ")}.
          </p>
        )}
      </div>
      <div class="dialog-actions">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  );
}

const FIRING_COLUMNS: readonly Column<FiringRow>[] = [
  { id: "state", title: "decision", width: "var(--state)", cell: (row) => <State state={row.decision} /> },
  {
    id: "event",
    title: "event",
    width: "minmax(14ch, 1.4fr)",
    cell: (row) => (
      <Link to={urls.event(row.event_id)}>
        <Name text={row.event_type ?? "removed"} />
        <span class="when-narrow dim">
          {" "}
          <PayloadText text={row.subject} />
        </span>
      </Link>
    ),
  },
  {
    id: "subject",
    title: "subject",
    width: "minmax(10ch, 1fr)",
    priority: 2,
    cell: (row) => <PayloadText text={row.subject} />,
  },
  {
    id: "why",
    title: "why",
    width: "minmax(8ch, 1.2fr)",
    cell: (row) => (
      <>
        {row.reason && <span title={REASONS[row.reason]?.remedy}>{REASONS[row.reason]?.what ?? row.reason}</span>}
        {row.limit !== null && (
          <span class="dim">
            {" "}
            limit {count(row.limit)}
            {row.value !== null && `, was ${count(row.value)}`}
          </span>
        )}{" "}
        {row.detail &&
          (isRedacted(row.detail) ? (
            <PayloadText text={row.detail} />
          ) : (
            <span class="dim">
              <Name text={row.detail} />
            </span>
          ))}
      </>
    ),
  },
  { id: "version", title: "version", width: "8ch", priority: 3, end: true, cell: (row) => `v${row.version}` },
  {
    id: "execution",
    title: "execution",
    width: "14ch",
    priority: 2,
    cell: (row) =>
      row.execution_id && (
        <Link to={urls.execution(row.execution_id)}>
          <State state={row.execution_state ?? "queued"} />
        </Link>
      ),
  },
  { id: "time", title: "when", width: "10ch", end: true, cell: (row) => <Ago time={row.time} /> },
];

const FIRING_FILTERS: readonly Filter[] = [
  { kind: "choice", name: "decision", label: "decision", choices: [{ value: "fired" }, { value: "suppressed" }] },
  {
    kind: "choice",
    name: "reason",
    label: "reason",
    several: true,
    choices: REASON_CHOICES,
  },
];

function FiringsTab({ name }: { name: string }) {
  const query = chosenFilters(FIRING_FILTERS);
  const list = useFreshList<FiringRow>({
      path: `${route("triggers", name)}/firings`,
      query,
      key: (row) => row.event_id,
      limit: 50,
    });
  const filtered = Object.keys(query).length > 0;
  return (
    <div class="tall-tab">
      <FilterBar filters={FIRING_FILTERS} />
      <Table
        list={list}
        columns={FIRING_COLUMNS}
        label="Firings"
        open={(row) => (row.execution_id ? urls.execution(row.execution_id) : urls.event(row.event_id))}
        empty={
          filtered ? (
            <Empty title="No firing matches.">
              <Button onClick={() => clearFilters(FIRING_FILTERS)}>Remove the filters</Button>
            </Empty>
          ) : (
            <Empty title="It has decided nothing yet.">
              <p>The preview of its rule shows what it would decide about stored events.</p>
            </Empty>
          )
        }
      />
    </div>
  );
}

const PARTS: readonly (readonly [keyof Flow, string])[] = [
  ["buffers", "Buffers"],
  ["throttle", "Throttle"],
  ["rate_limit", "Rate limit"],
  ["concurrency_groups", "Concurrency"],
  ["idempotency_keys", "Idempotency keys"],
  ["cancellations", "Cancellations"],
  ["executions", "Open executions"],
];

function FlowTab({ name }: { name: string }) {
  const data = useData<Flow>(`${route("triggers", name)}/flow`, {}, { every: 5 });
  return (
    <Show of={data}>
      {(flow) => {
        const waiting = PARTS.filter(([part]) => (flow[part] as FlowPart).count > 0);
        return (
          <div class="stack">
            <Facts
              of={[
                ["state", <State key="s" state={flow.halted ? "paused" : flow.state} />],
                ["advice", visible(flow.advice)],
                ["waiting matches", count(flow.pending)],
                ["in composites", flow.composite ? count(flow.matches) : null],
                ["dropped", flow.dropped ? count(flow.dropped) : null],
                ["executions", sums(flow.states)],
                ["suppressed", sums(flow.suppressed)],
              ]}
            />
            {flow.flow && Object.keys(flow.flow).length > 0 && (
              <Card title="Flow control">
                <Json value={flow.flow} label="Flow control" />
              </Card>
            )}
            {waiting.map(([part, title]) => {
              const { rows, count: all } = flow[part] as FlowPart;
              return (
                <Card key={part} title={title} more={count(all)}>
                  <Json value={rows} label={title} />
                  {all > rows.length && <p class="dim">{count(all - rows.length)} more are not shown.</p>}
                </Card>
              );
            })}
            {!waiting.length && <p class="dim">Nothing waits.</p>}
          </div>
        );
      }}
    </Show>
  );
}

const sums = (of: Readonly<Record<string, number>>) =>
  Object.entries(of)
    .map(([name, number]) => `${name.replaceAll("_", " ")} ${count(number)}`)
    .join(", ");

function VersionsTab({ row }: { row: Trigger }) {
  const list = useFreshList<TriggerVersion>({
    path: `${route("triggers", row.name)}/versions`,
    key: (one) => String(one.number),
  });
  const wanted = Number(place.value.query.get("a")) || null;
  const columns: readonly Column<TriggerVersion>[] = [
    {
      id: "number",
      title: "version",
      width: "minmax(14ch, 1fr)",
      cell: (one) => (
        <>
          v{one.number} {one.number === row.version && <Pill tone="ok">in force</Pill>}
        </>
      ),
    },
    { id: "author", title: "by", width: "minmax(10ch, 1fr)", cell: (one) => <Name text={one.author} /> },
    { id: "when", title: "saved", width: "11ch", end: true, cell: (one) => <Ago time={one.created_at} /> },
    {
      id: "compare",
      title: "",
      width: "24ch",
      end: true,
      priority: 2,
      cell: (one) => (
        <span class="row-actions">
          {one.number > 1 && (
            <button type="button" class="link" onClick={() => setQuery({ a: String(one.number) })}>
              diff
            </button>
          )}
          {one.number !== row.version && (
            <Button
              kind="plain"
              needs="author"
              onClick={() => {
                keepDraft(`trigger:${row.name}`, { ...draftFrom(one.definition), base: row.version });
                setQuery({ tab: null, a: null });
              }}
            >
              Edit from here
            </Button>
          )}
        </span>
      ),
    },
  ];
  const rows = list.rows.value;
  const after = wanted === null ? rows[0] : rows.find((one) => one.number === wanted);
  const before = rows.find((one) => one.number === (after?.number ?? 0) - 1);
  const older = wanted !== null && !(after && before) && !list.complete.value && !list.error.value;
  useEffect(() => {
    // The two that are compared may be on a page that is not here yet.
    if (older) void list.more();
  }, [list, older, rows.length]);
  return (
    <div class="stack">
      <Table short list={list} columns={columns} label="Versions" empty={null} />
      {after && before && (
        <Card title={`v${before.number} → v${after.number}`}>
          <Diff
            before={canonical(essence(before.definition))}
            after={canonical(essence(after.definition))}
            language="json"
            labels={[`v${before.number}`, `v${after.number}`]}
          />
        </Card>
      )}
    </div>
  );
}
