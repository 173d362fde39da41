// An agent: what each of its runs may use and spend, and its newest runs.

import type { Agent, Run, RunRow } from "../api.gen.ts";
import { action, route, send } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { count, dollars, duration } from "../format.ts";
import { useKeys } from "../keys.ts";
import { ask } from "../parts/dialog.tsx";
import { Json } from "../parts/json.tsx";
import { Button, Link } from "../parts/link.tsx";
import { LongText } from "../parts/long_text.tsx";
import {
  Ago, Card, Empty, Facts, Mark, More, Name, PageHead, RedactedChip, Show, State,
} from "../parts/small.tsx";
import { Table } from "../parts/table.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { go } from "../router.ts";
import { isRedacted, type Page } from "../rows.ts";
import { useRows } from "../rows_here.ts";
import { effectOf } from "../run_states.ts";
import { can } from "../session.ts";
import { type Href, urls } from "../urls.ts";
import { RUN_COLUMNS } from "./run_list.tsx";

const NEWEST = 20;
const EFFECTS = ["none", "reads", "acts"];
const COLUMNS = RUN_COLUMNS.filter((one) => one.id !== "agent").map((one) =>
  one.id === "goal" ? { ...one, priority: 1 as const } : one,
);
const LIMITS: Readonly<Record<string, string>> = {
  usd: "Money",
  tokens: "Tokens",
  calls: "Calls of models",
  tool_calls: "Calls of tools",
  children: "Child runs",
  proposals: "Proposals",
  seconds: "Time",
  steps: "Steps",
  errors: "Errors in a row",
};

export function AgentPage({ name }: { name: string }) {
  const data = useData<Agent>(route("agents", name), {}, { every: 15 });
  const row = data.data;
  const enabled = row?.state === "enabled";
  const turn = () => row && void setState(row, data);
  useKeys("Agent", [
    { keys: "r", label: "Start a run", run: () => askRun(name), when: can("operate") && enabled },
    { keys: "p", label: enabled ? "Disable" : "Enable", run: () => turn(), when: can("author") && row !== null },
  ]);
  const actions = row && (
    <>
      <Button
        needs="operate"
        kind="primary"
        keys="r"
        disabled={!enabled}
        why="It is disabled."
        onClick={() => askRun(name)}
      >
        Run…
      </Button>
      <Button needs="author" keys="p" onClick={() => turn()}>
        {enabled ? "Disable" : "Enable"}
      </Button>
    </>
  );
  return (
    <>
      <PageHead title={<Name text={name} />} mark={<Mark name="agent" />} waits={isPending(data)} actions={actions}>
        {row && (
          <>
            <span>v{row.version}</span>
            <State state={row.state} />
          </>
        )}
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(agent) => (
            <div class="stack">
              {agent.definition.description && <LongText of={agent.definition.description} prose />}
              <div class="two-columns">
                <Uses of={agent} />
                <div class="stack">
                  <LimitsCard of={agent} />
                  <Memo of={agent} />
                </div>
              </div>
              <NewestRuns name={agent.name} />
            </div>
          )}
        </Show>
      </div>
    </>
  );
}

function askRun(name: string): void {
  ask({
    title: `Run ${name}`,
    body: "It begins at once, and may spend what its limits allow.",
    verb: "Run",
    ask: { label: "Goal", required: true, placeholder: "what it is to reach" },
    run: async (goal) => {
      const made = await send<Run>("POST", route("agents", name, "runs"), { goal }, { once: true });
      void go(urls.run(made.id));
    },
  });
}

async function setState(of: Agent, data: Data<Agent>): Promise<void> {
  try {
    const verb = of.state === "enabled" ? "disable" : "enable";
    data.put(await send<Agent>("POST", action(verb, "agents", of.name)));
    toast({ text: `${of.name} is ${verb}d` });
  } catch (error) {
    toastError(error);
  }
}

function Uses({ of }: { of: Agent }) {
  const { function: step, model, tools, agents, checks, ask_before: asked } = of.definition;
  return (
    <Card title="What its runs use">
      <Facts
        of={[
          ["Step function", <Names names={[step]} to={urls.function} />],
          ["Model", model && <Names names={[model]} to={urls.model} />],
          ["Tools", tools.length > 0 && <Names names={tools} to={urls.function} />],
          ["Agents", agents.length > 0 && <Names names={agents} to={urls.agent} />],
          ["Checks of the result", checks.length > 0 && <Names names={checks} to={urls.function} />],
          [
            "Asks a person before",
            asked.length > 0 && (
              <ul>
                {asked.map((one) => (
                  <li key={one}>
                    {EFFECTS.includes(one) ? (
                      <>each tool that {effectOf(one).text}</>
                    ) : (
                      <Link to={urls.function(one)}>
                        <Name text={one} />
                      </Link>
                    )}
                  </li>
                ))}
              </ul>
            ),
          ],
          ["Changed by", <Name text={of.author} />],
          ["Changed", <Ago time={of.updated_at} />],
        ]}
      />
    </Card>
  );
}

function Names({ names, to }: { names: readonly string[]; to: (name: string) => Href }) {
  return (
    <ul>
      {names.map((name) => (
        <li key={name}>
          <Link to={to(name)}>
            <Name text={name} />
          </Link>
        </li>
      ))}
    </ul>
  );
}

function limitText(name: string, value: unknown): string {
  if (name === "usd") return dollars(Number(value));
  return name === "seconds" ? duration(Number(value)) : count(Number(value));
}

function LimitsCard({ of }: { of: Agent }) {
  const limits = Object.entries(of.definition.limits);
  return (
    <Card title="Limits of a run">
      {limits.length > 0 && (
        <Facts of={limits.map(([name, value]) => [LIMITS[name] ?? name, limitText(name, value)] as const)} />
      )}
      <p class="dim card-end">What is not limited here is limited by the settings.</p>
    </Card>
  );
}

function Memo({ of }: { of: Agent }) {
  const { memo } = of.definition;
  if (isRedacted(memo))
    return (
      <Card title="Memo of a new run">
        <RedactedChip needs={memo.redacted} />
      </Card>
    );
  if (typeof memo !== "object" || memo === null || !Object.keys(memo).length) return null;
  return (
    <Card title="Memo of a new run">
      <Json value={memo} label="Memo" />
    </Card>
  );
}

function NewestRuns({ name }: { name: string }) {
  const data = useData<Page<RunRow>>("/runs", { agent: name, limit: NEWEST }, { every: 5 });
  const list = useRows(data, (page) => page.items, (row) => row.id);
  return (
    <Card title="Newest runs" more={<More to={urls.runs({ agent: name })}>all its runs</More>}>
      <Show of={data} rows={4}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title="It has not run yet." />
          ) : (
            <Table list={list} columns={COLUMNS} label="Runs" open={(row) => urls.run(row.id)} short empty="" />
          )
        }
      </Show>
    </Card>
  );
}
