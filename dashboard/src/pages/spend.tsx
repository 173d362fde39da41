// Spend: what may be spent on models today, what was spent, and on what.

import { useState } from "preact/hooks";
import type { Cost, Quota } from "../api.gen.ts";
import { asProblem, type Problem, send } from "../api.ts";
import { useData } from "../data.ts";
import { count, dollars, percent } from "../format.ts";
import { useKeys } from "../keys.ts";
import { ask, Dialog } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import {
  Card, currentTab, Empty, Fault, Mark, Name, PageHead, Show, type Tab, TabPanel, Tabs,
} from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { place, setQuery } from "../router.ts";
import { can } from "../session.ts";
import { type Href, urls } from "../urls.ts";
import { Bar } from "./spend_bar.tsx";

const BY: readonly Tab[] = [
  { id: "model", title: "By model" },
  { id: "function", title: "By function" },
  { id: "agent", title: "By agent" },
  { id: "user", title: "By user" },
  { id: "day", title: "By day" },
];
const SCOPES = ["all", "key", "agent", "user"] as const;
const TIMES = [
  ["24h", "1 day"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["365d", "1 year"],
] as const;

export function SpendPage() {
  const quotas = useData<readonly Quota[]>("/quotas", {}, { every: 5 });
  const [asked, setAsked] = useState<Quota | "new" | null>(null);
  const mayChange = can("admin");
  useKeys("Spend", [{ keys: "n", label: "Set a quota", run: () => setAsked("new"), when: mayChange }]);
  return (
    <>
      <PageHead
        title="Spend"
        mark={<Mark name="spend" />}
        note="A call reserves the most that it can cost before it is sent: no limit is exceeded. Days are those of UTC."
        actions={
          <Button needs="admin" kind="primary" keys="n" onClick={() => setAsked("new")}>
            Set a quota
          </Button>
        }
      />
      <div class="page-body">
        <div class="stack">
          <Card title="Today">
            <Show of={quotas} rows={2}>
              {(rows) => <Quotas rows={rows} change={setAsked} reload={quotas.reload} />}
            </Show>
          </Card>
          <Costs />
        </div>
      </div>
      {asked !== null && (
        <SetQuota
          of={asked === "new" ? null : asked}
          close={() => setAsked(null)}
          done={(rows) => {
            quotas.put(rows);
            setAsked(null);
          }}
        />
      )}
    </>
  );
}

const nameOf = (row: Quota) => (row.scope === "all" ? "all together" : `${row.scope} ${row.name}`);

function Quotas({ rows, change, reload }: {
  rows: readonly Quota[];
  change: (of: Quota) => void;
  reload: () => void;
}) {
  const limited = (row: Quota) => row.usd !== null || row.tokens !== null || row.calls_limit !== null;
  const remove = (row: Quota) =>
    ask({
      title: `Delete the quota of ${nameOf(row)}?`,
      body: row.scope === "all" ? "The setting day_usd holds then." : "Nothing limits its days then.",
      verb: "Delete",
      danger: true,
      run: async () => {
        await send("POST", "/quotas:remove", { scope: row.scope, name: row.name });
        toast({ text: `The quota of ${nameOf(row)} was deleted` });
        reload();
      },
    });
  return (
    <ul class="lines quotas">
      {rows.map((row) => (
        <li key={`${row.scope} ${row.name}`}>
          <span class="grow">
            <Name text={nameOf(row)} />
          </span>
          <Bar what="Money" used={row.usd_spent} reserved={row.usd_reserved} limit={row.usd} show={dollars} />
          <Bar what="Tokens" used={row.tokens_spent} reserved={row.tokens_reserved} limit={row.tokens} show={count} />
          <Bar what="Calls" used={row.calls} limit={row.calls_limit} show={count} />
          <span class="row-buttons">
            <Button needs="admin" label={`Set the quota of ${nameOf(row)}`} onClick={() => change(row)}>
              Set
            </Button>
            <Button
              needs="admin"
              kind="plain"
              label={`Delete the quota of ${nameOf(row)}`}
              disabled={!limited(row)}
              why="It has no quota."
              onClick={() => remove(row)}
            >
              Delete
            </Button>
          </span>
        </li>
      ))}
    </ul>
  );
}

function Costs() {
  const by = currentTab(BY, "by");
  const since = place.value.query.get("since") ?? "7d";
  const data = useData<readonly Cost[]>("/calls:cost", { by, since }, { every: 10 });
  return (
    <Card
      title="Cost"
      more={
        <label>
          of{" "}
          <select value={since} onChange={(event) => setQuery({ since: event.currentTarget.value })}>
            {TIMES.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
      }
    >
      <Tabs tabs={BY} current={by} name="by" label="Cost" />
      <TabPanel id={by}>
        <Show of={data} rows={4}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No model was asked in this time." />
            ) : (
              <CostTable by={by} rows={rows} />
            )
          }
        </Show>
      </TabPanel>
    </Card>
  );
}

function CostTable({ by, rows }: { by: string; rows: readonly Cost[] }) {
  const total = rows.reduce((sum, row) => sum + row.cost, 0);
  return (
    <table class="plain-table costs">
      <thead>
        <tr>
          <th scope="col">{by}</th>
          <th scope="col">cost</th>
          <th scope="col">share</th>
          <th scope="col">calls</th>
          <th scope="col">tokens</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.of}>
            <th scope="row">
              <Of by={by} of={row.of} />
            </th>
            <td>{dollars(row.cost)}</td>
            <td>{percent(row.cost, total)}</td>
            <td>{count(row.calls)}</td>
            <td>{count(row.tokens_in + row.tokens_out)}</td>
          </tr>
        ))}
      </tbody>
      {rows.length > 1 && (
        <tfoot>
          <tr>
            <th scope="row">all</th>
            <td>{dollars(total)}</td>
            <td />
            <td>{count(rows.reduce((sum, row) => sum + row.calls, 0))}</td>
            <td>{count(rows.reduce((sum, row) => sum + row.tokens_in + row.tokens_out, 0))}</td>
          </tr>
        </tfoot>
      )}
    </table>
  );
}

function Of({ by, of }: { by: string; of: string | null }) {
  if (!of) return <span class="dim">{by === "function" ? "a person" : "none"}</span>;
  const to: Href | null = by === "day" ? null : urls.calls({ [by]: of });
  return to ? (
    <Link to={to}>
      <Name text={of} />
    </Link>
  ) : (
    <Name text={of} />
  );
}

const whole = (text: string) => (text.trim() === "" ? null : Number(text.replaceAll(",", "")));

function SetQuota({ of, close, done }: {
  of: Quota | null;
  close: () => void;
  done: (rows: readonly Quota[]) => void;
}) {
  const [scope, setScope] = useState<string>(of?.scope ?? "all");
  const [name, setName] = useState(of?.name ?? "");
  const [usd, setUsd] = useState(of?.usd?.toString() ?? "");
  const [tokens, setTokens] = useState(of?.tokens?.toString() ?? "");
  const [calls, setCalls] = useState(of?.calls_limit?.toString() ?? "");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const save = async () => {
    if (busy) return;
    setBusy(true);
    setProblem(null);
    try {
      const limits = { usd: usd.trim() === "" ? null : usd.trim(), tokens: whole(tokens), calls: whole(calls) };
      const body = { scope, name: scope === "all" ? "" : name.trim(), ...limits };
      const rows = await send<readonly Quota[]>("POST", "/quotas:set", body);
      toast({ text: "The quota is set" });
      done(rows);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  const field = (label: string, value: string, set: (text: string) => void, hint: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        inputMode="decimal"
        autocomplete="off"
        placeholder={hint}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
  return (
    <Dialog title={of ? `Set the quota of ${nameOf(of)}` : "Set a quota"} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {!of && (
          <>
            <label class="field">
              <span>Of</span>
              <select value={scope} onChange={(event) => setScope(event.currentTarget.value)}>
                {SCOPES.map((one) => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </select>
            </label>
            {scope !== "all" && (
              <label class="field">
                <span>{scope === "key" ? "Name of its secret" : "Name"}</span>
                <input
                  class="mono"
                  autocomplete="off"
                  value={name}
                  onInput={(event) => setName(event.currentTarget.value)}
                />
              </label>
            )}
          </>
        )}
        {field("US dollars a day", usd, setUsd, "not limited")}
        {field("Tokens a day", tokens, setTokens, "not limited")}
        {field("Calls a day", calls, setCalls, "not limited")}
        <p class="dialog-text dim">0 allows nothing.</p>
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
