// What an execution asked of language models, and what its tree may spend on them.

import { useState } from "preact/hooks";
import type { CallRow, Meter } from "../api.gen.ts";
import { action, asProblem, type Problem, route, send } from "../api.ts";
import { type Data, useData } from "../data.ts";
import { isOpen } from "../execution_states.ts";
import { count, dollars, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Button } from "../parts/link.tsx";
import { Ago, Card, Empty, Facts, Fault, More, Show, TabPanel } from "../parts/small.tsx";
import { Table } from "../parts/table.tsx";
import { toast } from "../parts/toast.tsx";
import type { Execution, Page } from "../rows.ts";
import { useRows } from "../rows_here.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { CALL_COLUMNS } from "./calls.tsx";
import { Bar } from "./spend_bar.tsx";

const LIMIT = 200;
// Those that say nothing new here.
const COLUMNS = CALL_COLUMNS.filter((one) => one.id !== "function");

export function ExecutionCalls({ row }: { row: Execution }) {
  const data = useData<Page<CallRow>>("/calls", { execution: row.id, limit: LIMIT }, {
    every: 2,
    polled: () => isOpen(row.state),
  });
  const list = useRows(data, (page) => page.items, (one) => one.id);
  const calls = data.data?.items ?? [];
  const cost = calls.reduce((sum, one) => sum + one.cost, 0);
  return (
    <TabPanel id="models">
      <Show of={data} rows={4}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title="It asked no model." />
          ) : (
            <div class="stack">
              <p>
                {plural(page.items.length, "call")}
                {page.next && " or more"}, {dollars(cost)}.{" "}
                <More to={urls.calls({ root: row.root_id })}>all calls of its tree</More>
              </p>
              <Table
                list={list}
                columns={COLUMNS}
                label="Model calls"
                open={(one) => urls.call(one.id)}
                short
                empty=""
              />
              <TreeBudget id={row.id} />
            </div>
          )
        }
      </Show>
    </TabPanel>
  );
}

function TreeBudget({ id }: { id: string }) {
  const data: Data<Meter> = useData<Meter>(route("budgets", id), {}, { every: 5 });
  const [asked, setAsked] = useState(false);
  useKeys("Budget", [{ keys: "b", label: "Raise the budget", run: () => setAsked(true), when: can("approve") }]);
  return (
    <Card
      title="Budget of its tree"
      more={
        <Button needs="approve" keys="b" onClick={() => setAsked(true)}>
          Raise…
        </Button>
      }
    >
      <Show of={data} rows={3}>
        {(of) => (
          <Facts
            of={[
              [
                "Money",
                <Bar
                  what="Money"
                  used={of.usd_spent}
                  reserved={of.usd_reserved}
                  limit={of.usd_limit}
                  show={dollars}
                  bare
                />,
              ],
              [
                "Tokens",
                <Bar
                  what="Tokens"
                  used={of.tokens_spent}
                  reserved={of.tokens_reserved}
                  limit={of.tokens_limit}
                  show={count}
                  bare
                />,
              ],
              ["Calls", <Bar what="Calls" used={of.calls} limit={of.calls_limit} show={count} bare />],
              ["Tool calls", of.tool_calls > 0 && `${count(of.tool_calls)} of ${count(of.tool_calls_limit)}`],
              ["Child runs", of.children > 0 && `${count(of.children)} of ${count(of.children_limit)}`],
              ["Until", <Ago time={of.deadline_at} />],
              ["A limit was reached", of.exceeded_at && <Ago time={of.exceeded_at} />],
            ]}
          />
        )}
      </Show>
      {asked && data.data && <Raise of={data.data} data={data} close={() => setAsked(false)} />}
    </Card>
  );
}

function Raise({ of, data, close }: { of: Meter; data: Data<Meter>; close: () => void }) {
  const [usd, setUsd] = useState(String(of.usd_limit));
  const [tokens, setTokens] = useState(String(of.tokens_limit));
  const [calls, setCalls] = useState(String(of.calls_limit));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const save = async () => {
    if (busy) return;
    setBusy(true);
    setProblem(null);
    try {
      const body = { usd: usd.trim(), tokens: Number(tokens), calls: Number(calls) };
      data.put(await send<Meter>("POST", action("raise", "budgets", of.root_id), body));
      toast({ text: "The budget was changed" });
      close();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  const field = (label: string, value: string, set: (text: string) => void) => (
    <label class="field">
      <span>{label}</span>
      <input inputMode="decimal" autocomplete="off" value={value} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
  return (
    <Dialog title="Raise the budget of the tree" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <p class="dialog-text">What it has spent stays counted: {dollars(of.usd_spent + of.usd_reserved)}.</p>
        {field("US dollars", usd, setUsd)}
        {field("Tokens", tokens, setTokens)}
        {field("Calls", calls, setCalls)}
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy}>
            Set
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
