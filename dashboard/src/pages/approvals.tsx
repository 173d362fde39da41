// Approvals: what waits for a person. Questions of runs hold up these; without a grant a function runs with less.

import type { Question } from "../api.gen.ts";
import type { Grant } from "../api.gen.ts";
import { type Data, useData } from "../data.ts";
import { useKeys } from "../keys.ts";
import { useFreshList } from "../lists.ts";
import { chosenFilters, type Filter, FilterBar } from "../parts/filter_bar.tsx";
import { Button } from "../parts/link.tsx";
import {
  currentTab, Empty, Fault, Mark, PageHead, Show, Skeleton, type Tab, tabKeys, TabPanel, Tabs,
} from "../parts/small.tsx";
import type { Page } from "../rows.ts";
import { Grants } from "./grants.tsx";
import { Questions } from "./questions.tsx";

const TABS: readonly Tab[] = [
  { id: "questions", title: "Questions" },
  { id: "decided", title: "Decided" },
  { id: "grants", title: "Grants" },
  { id: "refused", title: "Refused grants" },
  { id: "effect", title: "Grants in effect" },
];

// Those that wait longest come first; the others come when these are decided.
const MOST = 100;
const DECIDED = ["approved", "edited", "rejected", "answered", "expired", "withdrawn"];
const KINDS = [
  { value: "tool", label: "use of a tool" },
  { value: "ask", label: "question of a run" },
  { value: "proposal", label: "proposed version" },
];
const FILTERS: readonly Filter[] = [
  { kind: "choice", name: "state", label: "state", choices: DECIDED.map((value) => ({ value })) },
  { kind: "choice", name: "kind", label: "kind", choices: KINDS },
];

export function ApprovalsPage() {
  const tab = currentTab(TABS);
  const waiting = useData<Page<Question>>("/approvals", { state: "pending", limit: MOST }, { every: 2 });
  const grants = useData<readonly Grant[]>("/grants:waiting", {}, { every: 5 });
  useKeys("Approvals", tabKeys(TABS));
  const counts: Readonly<Record<string, number | undefined>> = {
    questions: waiting.data?.items.length,
    grants: grants.data?.length,
  };
  const tabs = TABS.map((one) => ({ ...one, count: counts[one.id] ?? null }));
  return (
    <>
      <PageHead title="Approvals" mark={<Mark name="approval" />} />
      <Tabs label="Approvals" tabs={tabs} current={tab} />
      <TabPanel id={tab}>
        {tab === "questions" && <Asked of={waiting} />}
        {tab === "decided" && <Decided />}
        {(tab === "grants" || tab === "refused" || tab === "effect") && <Grants tab={tab} waiting={grants} />}
      </TabPanel>
    </>
  );
}

function Asked({ of }: { of: Data<Page<Question>> }) {
  return (
    <Show of={of} rows={4}>
      {(page) => (
        <>
          {!page.items.length && (
            <Empty title="No question waits.">
              <p>Runs of agents ask before they use a tool that needs consent, and what their steps want to know.</p>
            </Empty>
          )}
          <Questions of={page.items} reload={of.reload} />
        </>
      )}
    </Show>
  );
}

function Decided() {
  const filters = FILTERS;
  const query = chosenFilters(filters);
  const list = useFreshList<Question>({ path: "/approvals", query, key: (one) => one.id });
  const rows = list.rows.value.filter((one) => one.state !== "pending");
  return (
    <>
      <FilterBar filters={filters} />
      {list.error.value && <Fault error={list.error.value} retry={() => void list.reload()} />}
      {!list.loaded.value && !list.error.value && <Skeleton rows={4} />}
      {list.complete.value && !rows.length && <Empty title="No question was decided." />}
      {list.loaded.value && !list.complete.value && !rows.length && <p>No decided one was found yet.</p>}
      <Questions of={rows} reload={() => void list.reload()} keys={false} />
      {!list.complete.value && list.loaded.value && (
        <p>
          <Button busy={list.loading.value} onClick={() => void list.more()}>
            Show older ones
          </Button>
        </p>
      )}
    </>
  );
}
