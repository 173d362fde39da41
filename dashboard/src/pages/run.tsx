// One run of an agent: how far it is, what it has spent, what it waits for, and its steps.

import type { Run } from "../api.gen.ts";
import { route } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { count, dollars } from "../format.ts";
import { useKeys } from "../keys.ts";
import { Json } from "../parts/json.tsx";
import { Button, Link, LinkButton } from "../parts/link.tsx";
import { LongText } from "../parts/long_text.tsx";
import {
  Ago, Card, currentTab, Facts, Id, Mark, More, Name, PageHead, PayloadText, Pill, RedactedChip, Show, type Tab,
  tabKeys, TabPanel, Tabs,
} from "../parts/small.tsx";
import { go } from "../router.ts";
import { isRedacted, type Payload, type Text } from "../rows.ts";
import { isOpenRun, reasonText, waitText } from "../run_states.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { Questions } from "./questions.tsx";
import { askCancel, askPause, askResume, canCancel, canPause, canResume } from "./run_actions.ts";
import { RunCalls, RunSteps } from "./run_steps.tsx";
import { RunOf, RunState } from "./run_list.tsx";
import { Bar } from "./spend_bar.tsx";

const TABS: readonly Tab[] = [
  { id: "steps", title: "Steps" },
  { id: "calls", title: "Model calls" },
  { id: "memo", title: "Memo" },
];

export function RunPage({ id }: { id: string }) {
  const data = useData<Run>(route("runs", id), {}, { every: 2, polled: (one) => isOpenRun(one.state) });
  const row = data.data;
  const tab = currentTab(TABS);
  const operates = row !== null && can("operate");
  useKeys("Run", [
    { keys: "p", label: "Pause", run: () => askPause(id, data.reload), when: operates && canPause(row) },
    { keys: "p", label: "Resume", run: () => askResume(id, data.reload), when: operates && canResume(row) },
    { keys: "c", label: "Cancel", run: () => askCancel(id, data.reload), when: operates && canCancel(row) },
    { keys: "T", label: "Tree", run: () => row && go(urls.tree(row.root_id, { at: id })), when: row !== null },
    ...tabKeys(TABS),
  ]);
  return (
    <>
      <PageHead
        title={row ? <RunOf of={row} /> : "Run"}
        mark={<Mark name="run" />}
        waits={isPending(data)}
        actions={row && <Actions row={row} data={data} />}
      >
        {row && (
          <>
            <RunState of={row} />
            {row.checked === false && <Pill tone="warn">not accepted by its checks</Pill>}
            {row.state === "succeeded" && row.checked === null && (
              <Pill title="Its agent has no checks: what the model says is the result.">unchecked</Pill>
            )}
            <Ago time={row.created_at} />
          </>
        )}
      </PageHead>
      {data.data === null && <Show of={data}>{() => null}</Show>}
      {row && (
        <>
          <div class="page-body">
            <div class="stack">
              <Why of={row} />
              <Questions of={row.questions} reload={data.reload} inRun />
              <div class="two-columns">
                <div class="stack">
                  <Card title="Goal">
                    <LongText of={row.goal} prose />
                  </Card>
                  {!isOpenRun(row.state) && <Result of={row} />}
                  <RunFacts of={row} />
                </div>
                <Limits of={row} />
              </div>
            </div>
          </div>
          <Tabs tabs={TABS} current={tab} label="Run" />
          <TabPanel id={tab}>
            {tab === "steps" && <RunSteps of={row} />}
            {tab === "calls" && <RunCalls of={row} />}
            {tab === "memo" && <JsonOr of={row.memo} label="Memo" />}
          </TabPanel>
        </>
      )}
    </>
  );
}

function Actions({ row, data }: { row: Run; data: Data<Run> }) {
  return (
    <>
      {canPause(row) && (
        <Button needs="operate" keys="p" onClick={() => askPause(row.id, data.reload)}>
          Pause
        </Button>
      )}
      {canResume(row) && (
        <Button needs="operate" kind="primary" keys="p" onClick={() => askResume(row.id, data.reload)}>
          Resume
        </Button>
      )}
      {canCancel(row) && (
        <Button needs="operate" keys="c" onClick={() => askCancel(row.id, data.reload)}>
          Cancel
        </Button>
      )}
      <LinkButton to={urls.tree(row.root_id, { at: row.id })} keys="T">
        Tree
      </LinkButton>
    </>
  );
}

/** What it waits for, or why it has ended. */
function Why({ of }: { of: Run }) {
  if (isOpenRun(of.state)) {
    // Its questions are right below.
    const waits = of.waits.filter((wait) => wait.kind !== "approval" || of.questions.length === 0);
    if (!waits.length) return null;
    const kinds = [...new Set(waits.map((wait) => wait.kind))];
    return (
      <p class="notice">
        It waits for{" "}
        {kinds.map((kind, at) => {
          const targets = waits.filter((wait) => wait.kind === kind);
          return (
            <span key={kind}>
              {at > 0 && ", "}
              <Waited kind={kind} targets={targets.map((one) => one.target_id)} />
            </span>
          );
        })}
        .
      </p>
    );
  }
  const message = messageOf(of.detail);
  if (of.reason === null && message === null) return null;
  return (
    <p class="notice">
      <span class={of.state === "cancelled" ? "" : "tone-bad"}>
        {of.reason !== null && `It was stopped because ${reasonText(of.reason)}`}
        {of.reason !== null && message !== null && ": "}
        <PayloadText text={message} />
      </span>
    </p>
  );
}

function messageOf(detail: Run["detail"]): Text | null {
  if (detail === null) return null;
  if (isRedacted(detail)) return detail;
  const message = detail["message"];
  return typeof message === "string" || isRedacted(message) ? message : null;
}

function Waited({ kind, targets }: { kind: string; targets: readonly string[] }) {
  const text = waitText(kind, targets.length);
  const [first] = targets;
  if (targets.length !== 1 || first === undefined) return <>{text}</>;
  const to =
    kind === "call"
      ? urls.call(first)
      : kind === "execution"
        ? urls.execution(first)
        : kind === "run"
          ? urls.run(first)
          : null;
  return to ? <Link to={to}>{text}</Link> : <>{text}</>;
}

function Limits({ of }: { of: Run }) {
  const spent = of.spent;
  return (
    <Card
      title="Limits"
      more={of.root_id !== of.id && <span class="dim">money, tokens and calls: of its whole tree</span>}
    >
      <Facts
        of={[
          ["Steps", <Bar what="Steps" used={of.step} limit={of.max_steps} show={count} bare />],
          ...(spent === null
            ? []
            : ([
                [
                  "Money",
                  <Bar
                    what="Money"
                    used={spent.usd_spent}
                    reserved={spent.usd_reserved}
                    limit={spent.usd_limit}
                    show={dollars}
                    bare
                  />,
                ],
                [
                  "Tokens",
                  <Bar
                    what="Tokens"
                    used={spent.tokens_spent}
                    reserved={spent.tokens_reserved}
                    limit={spent.tokens_limit}
                    show={count}
                    bare
                  />,
                ],
                [
                  "Calls of models",
                  <Bar what="Calls of models" used={spent.calls} limit={spent.calls_limit} show={count} bare />,
                ],
                [
                  "Calls of tools",
                  <Bar
                    what="Calls of tools"
                    used={spent.tool_calls}
                    limit={spent.tool_calls_limit}
                    show={count}
                    bare
                  />,
                ],
                [
                  "Child runs",
                  spent.children > 0 && (
                    <Bar what="Child runs" used={spent.children} limit={spent.children_limit} show={count} bare />
                  ),
                ],
                ["Until", isOpenRun(of.state) && <Ago time={spent.deadline_at} />],
              ] as const)),
          ["Errors in a row", of.errors > 0 && count(of.errors)],
        ]}
      />
    </Card>
  );
}

function RunFacts({ of }: { of: Run }) {
  return (
    <Card title="Facts">
      <Facts
        of={[
          ["Id", <Id id={of.id} />],
          [
            "Agent",
            of.agent && (
              <Link to={urls.agent(of.agent)}>
                <Name text={of.agent} />
              </Link>
            ),
          ],
          [
            "Step function",
            <Link to={urls.function(of.function)}>
              <Name text={of.function} />
            </Link>,
          ],
          ["Part of", of.parent_run_id && <More to={urls.run(of.parent_run_id)}>the run that waits for it</More>],
          ["Runs of its tree", <More to={urls.runs({ root: of.root_id })}>runs</More>],
          ["Started by", <Name text={of.author} />],
          ["For", of.user_name && <Name text={of.user_name} />],
          ["Started", <Ago time={of.created_at} />],
          ["Ended", of.ended_at && <Ago time={of.ended_at} />],
        ]}
      />
    </Card>
  );
}

function Result({ of }: { of: Run }) {
  if (of.state !== "succeeded" && (of.result === null || of.result === undefined)) return null;
  return (
    <Card title="Result">
      {typeof of.result === "string" ? <LongText of={of.result} prose /> : <JsonOr of={of.result} label="Result" />}
    </Card>
  );
}

function JsonOr({ of, label }: { of: Payload; label: string }) {
  if (isRedacted(of)) return <RedactedChip needs={of.redacted} />;
  return <Json value={of} label={label} />;
}
