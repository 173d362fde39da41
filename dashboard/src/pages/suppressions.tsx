// What guards and pauses stopped: by trigger, tree and reason, with a remedy, and a way to run it after all.

import type { Replayed, ResumedMatches, Suppression } from "../api.gen.ts";
import { send } from "../api.ts";
import { count, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { type List, useFreshList } from "../lists.ts";
import { ask } from "../parts/dialog.tsx";
import { chosenFilters, clearFilters, type Filter, FilterBar } from "../parts/filter_bar.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Card, Empty, Facts, Mark, More, Name, PageHead, Split } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { REASON_CHOICES, REASONS } from "../reasons.ts";
import { place, setQuery } from "../router.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";

const keyOf = (row: Suppression) => `${row.trigger_id}/${row.root_id}/${row.reason}`;

const COLUMNS: readonly Column<Suppression>[] = [
  {
    id: "trigger",
    title: "trigger",
    width: "minmax(18ch, 1fr)",
    cell: (row) => (
      <>
        <Mark name="suppressed" tone="warn" />{" "}
        {row.trigger ? <Name text={row.trigger} /> : <span class="dim">deleted</span>}
      </>
    ),
  },
  {
    id: "reason",
    title: "reason",
    width: "minmax(14ch, .6fr)",
    cell: (row) => <span class="tone-warn">{row.reason.replaceAll("_", " ")}</span>,
  },
  {
    id: "what",
    title: "what happened",
    width: "minmax(20ch, 1.4fr)",
    priority: 2,
    cell: (row) => <span class="dim">{REASONS[row.reason]?.what}</span>,
  },
  { id: "count", title: "stopped", width: "8ch", end: true, cell: (row) => count(row.count) },
  {
    id: "resumed",
    title: "run later",
    width: "9ch",
    priority: 3,
    end: true,
    cell: (row) => <span class="dim">{count(row.resumed)}</span>,
  },
  { id: "last", title: "last", width: "var(--when)", end: true, cell: (row) => <Ago time={row.last_at} /> },
];

function useFilters(): readonly Filter[] {
  return [
    {
      kind: "text",
      name: "trigger",
      label: "trigger",
      suggest: "/triggers",
    },
    { kind: "choice", name: "reason", label: "reason", several: true, choices: REASON_CHOICES },
    ...(place.value.query.has("root")
      ? [{ kind: "choice" as const, name: "root", label: "tree", choices: [] }]
      : []),
  ];
}

export function SuppressionsPage() {
  const filters = useFilters();
  const query = chosenFilters(filters);
  const list = useFreshList<Suppression>({ path: "/suppressions", query, key: keyOf });
  const at = place.value.query.get("at");
  const index = at === null ? undefined : list.index.value.get(at);
  const row = index === undefined ? null : (list.rows.value[index] ?? null);
  const mayOperate = can("operate");
  useKeys("Suppressions", [
    { keys: "Escape", label: "Close the part beside", run: () => setQuery({ at: null }), when: at !== null },
    {
      keys: "R",
      label: "Run all of it once",
      run: () => row && void askResume(row, list),
      when: mayOperate && row !== null,
    },
  ]);
  return (
    <>
      <PageHead
        title="Suppressions"
        mark={<Mark name="suppressed" />}
        note="Matches that guards, pauses and limits stopped. Each can still run once."
      />
      <FilterBar filters={filters} saved="suppressions" />
      <Split
        left={
          <Table
            list={list}
            columns={COLUMNS}
            label="Suppressions"
            open={(one) => urls.suppressions({ ...Object.fromEntries(place.value.query), at: keyOf(one) })}
            beside={(one) => setQuery({ at: keyOf(one) })}
            besideOpen={at !== null}
            at={at}
            empty={
              Object.keys(query).length ? (
                <Empty title="Nothing matches the filters.">
                  <Button onClick={() => clearFilters(filters)}>Remove the filters</Button>
                </Empty>
              ) : (
                <Empty title="Nothing was stopped.">
                  <p>Guards stop loops and floods. What they stop appears here with the reason.</p>
                </Empty>
              )
            }
          />
        }
        right={row && <Beside of={row} list={list} />}
      />
    </>
  );
}

function Beside({ of, list }: { of: Suppression; list: List<Suppression> }) {
  const { trigger, reason } = of;
  const words = REASONS[reason];
  return (
    <div class="beside">
      <h2>
        <Mark name="suppressed" tone="warn" /> {reason.replaceAll("_", " ")}: {words?.what ?? "stopped"}
      </h2>
      <Facts
        of={[
          [
            "Trigger",
            trigger ? (
              <Link to={urls.trigger(trigger)}>
                <Name text={trigger} />
              </Link>
            ) : (
              "deleted"
            ),
          ],
          ["Stopped", plural(of.count, "match", "matches")],
          ["Run later", of.resumed ? count(of.resumed) : null],
          ["First", <Ago time={of.first_at} />],
          ["Last", <Ago time={of.last_at} />],
          ["First event", <More to={urls.event(of.first_event_id)}>event</More>],
          ["Tree", <More to={urls.tree(of.root_id)}>tree</More>],
        ]}
      />
      <Card title="What to do">
        <p>{words?.remedy ?? "Look at the decisions of the trigger."}</p>
        {trigger && (
          <p>
            <More to={urls.trigger(trigger, { tab: "firings", decision: "suppressed", reason })}>
              each match with limit and value
            </More>
          </p>
        )}
      </Card>
      <div class="row-buttons">
        <Button
          needs="operate"
          disabled={!trigger}
          why="The trigger was deleted."
          onClick={() => trigger && void runFirst(of, trigger)}
        >
          Run the first once
        </Button>
        <Button
          needs="operate"
          keys="R"
          disabled={!trigger}
          why="The trigger was deleted."
          onClick={() => void askResume(of, list)}
        >
          Run all once…
        </Button>
      </div>
    </div>
  );
}

async function runFirst(of: Suppression, trigger: string): Promise<void> {
  try {
    const made = await send<Replayed>(
      "POST",
      "/suppressions:replay",
      { trigger, event: of.first_event_id },
      { once: true },
    );
    toast({ text: "It runs", link: { to: urls.execution(made.execution_id), text: "the execution" } });
  } catch (error) {
    toastError(error);
  }
}

/** Counts first, then asks, then starts them. */
async function askResume(of: Suppression, list: List<Suppression>): Promise<void> {
  if (!of.trigger) return;
  const body = { trigger: of.trigger, root: of.root_id, reasons: [of.reason] };
  let counted: ResumedMatches;
  try {
    counted = await send<ResumedMatches>("POST", "/suppressions:resume", { ...body, dry_run: true });
  } catch (error) {
    toastError(error);
    return;
  }
  if (!counted.total) {
    toast({ text: "All of them have run already" });
    return;
  }
  ask({
    title: `Run ${plural(counted.total, "stopped match", "stopped matches")} of ${of.trigger}?`,
    body: "Each starts one execution. Guards and flow control do not apply to these, but to what they cause.",
    verb: `Run ${count(counted.total)}`,
    danger: counted.total > 100,
    run: async () => {
      const done = await send<ResumedMatches>("POST", "/suppressions:resume", body, { once: true });
      toast({
        text: done.failed
          ? `${plural(done.total, "match", "matches")} started, ${done.failed} failed`
          : `${plural(done.total, "match", "matches")} started`,
        link: { to: urls.tree(of.root_id), text: "the tree" },
        ...(done.failed ? { tone: "bad" as const } : {}),
      });
      void list.reload();
    },
  });
}
