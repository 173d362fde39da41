// Questions of runs: may a tool run, and what a step asks. They are decided once.

import { useState } from "preact/hooks";
import type { Question } from "../api.gen.ts";
import { useKeys } from "../keys.ts";
import { Json } from "../parts/json.tsx";
import { Button, Link } from "../parts/link.tsx";
import { LongText } from "../parts/long_text.tsx";
import {
  Ago, FunctionName, Mark, More, Name, PayloadText, Pill, RedactedChip, State,
} from "../parts/small.tsx";
import { isRedacted } from "../rows.ts";
import { effectOf } from "../run_states.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { type Asked, type Decision, DecisionDialog } from "./question_dialogs.tsx";
import { argumentsOf, askedText, choicesOf, proposalOf, toolOf } from "./question_texts.ts";

// More choices than these, or longer ones, are in the dialog.
const BUTTONS = 4;
const SHORT = 30;

/** The questions as cards, of which one has the keys. `inRun` leaves out what the page of the run says. Without a
 * question it is drawn, too: the dialog of one that is decided meanwhile stays open. */
export function Questions({ of, reload, inRun, keys = true }: {
  of: readonly Question[];
  reload: () => void;
  inRun?: boolean;
  keys?: boolean;
}) {
  const [at, setAt] = useState(0);
  const [asked, setAsked] = useState<Asked | null>(null);
  const active = Math.min(at, Math.max(0, of.length - 1));
  const current = keys ? of[active] : undefined;
  const decide = can("operate") && current?.state === "pending";
  const ask = (decision: Decision, question: Question | undefined, value?: string) =>
    question && setAsked({ decision, question, ...(value === undefined ? {} : { value }) });
  const go = (by: number) => {
    const next = Math.max(0, Math.min(of.length - 1, active + by));
    setAt(next);
    document.getElementById(`question-${of[next]?.id}`)?.scrollIntoView({ block: "nearest" });
  };
  const isTool = current?.kind === "tool";
  const asks = current?.kind === "ask";
  const mayEdit = isTool && !isRedacted(argumentsOf(current));
  useKeys("Questions", [
    { keys: "j", label: "Next question", run: () => go(1), when: keys && of.length > 1 },
    { keys: "k", label: "Question before", run: () => go(-1), when: keys && of.length > 1 },
    { keys: "A", label: "Approve", run: () => ask("approve", current), when: decide && !asks },
    { keys: "E", label: "Edit the arguments", run: () => ask("edit", current), when: decide && mayEdit },
    { keys: "A", label: "Answer", run: () => ask("answer", current), when: decide && asks },
    { keys: "D", label: "Reject", run: () => ask("reject", current), when: decide },
  ]);
  return (
    <>
      {of.length > 0 && (
        <ul class="grants questions">
          {of.map((question) => (
            <QuestionCard
              key={question.id}
              of={question}
              current={question === current && of.length > 1}
              keys={question === current && question.state === "pending"}
              ask={ask}
              {...(inRun ? { inRun } : {})}
            />
          ))}
        </ul>
      )}
      {asked && (
        <DecisionDialog
          of={asked}
          close={() => setAsked(null)}
          done={() => {
            setAsked(null);
            reload();
          }}
        />
      )}
    </>
  );
}

function QuestionCard({ of, current, keys, ask, inRun }: {
  of: Question;
  current: boolean;
  keys: boolean;
  ask: (decision: Decision, question: Question, value?: string) => void;
  inRun?: boolean;
}) {
  const waits = of.state === "pending";
  return (
    <li
      id={`question-${of.id}`}
      class={current ? "card current" : "card"}
      aria-current={current || undefined}
    >
      <Mark name="approval" tone={waits ? "hold" : "off"} />
      <div class="grow">
        <What of={of} />
        {!inRun && <Whose of={of} />}
        <p class="dim">
          asked <Ago time={of.requested_at} />
          {waits && (
            <>
              {" "}
              · expires <Ago time={of.expires_at} />
            </>
          )}
        </p>
        {!waits && <Outcome of={of} />}
      </div>
      {waits && <Buttons of={of} keys={keys} ask={ask} />}
      {of.kind === "tool" && <Arguments of={of} />}
    </li>
  );
}

function What({ of }: { of: Question }) {
  if (of.kind === "proposal") return <Proposed of={of} />;
  if (of.kind !== "tool") return <LongText of={askedText(of)} prose />;
  const { tool, version, effect } = toolOf(of);
  if (tool === null) return null;
  const may = effectOf(effect);
  return (
    <p>
      May it run{" "}
      <strong>
        <Link to={version === null ? urls.function(tool) : urls.version(tool, version)}>
          <Name text={tool} mono />
        </Link>
      </strong>
      ?{" "}
      <Pill tone={may.tone} title="The most that it may do with all its grants.">
        {may.text}
      </Pill>
    </p>
  );
}

function Proposed({ of }: { of: Question }) {
  const { version, description, persons } = proposalOf(of);
  return (
    <>
      May{" "}
      <strong>
        <Link to={version === null ? urls.function(of.function) : urls.version(of.function, version)}>
          <FunctionName name={of.function} version={version} />
        </Link>
      </strong>{" "}
      become active? {persons === "two" && <Pill tone="warn">two persons must agree</Pill>}
      {description !== null && (
        <p>
          <PayloadText text={description} />
        </p>
      )}
    </>
  );
}

function Whose({ of }: { of: Question }) {
  if (of.run_id === null) return null;
  return (
    <p>
      {of.agent && (
        <>
          <Link to={urls.agent(of.agent)}>
            <Name text={of.agent} />
          </Link>
          :{" "}
        </>
      )}
      <PayloadText text={of.goal} />{" "}
      {of.run_id && <More to={urls.run(of.run_id)}>its run</More>}
    </p>
  );
}

function Arguments({ of }: { of: Question }) {
  const given = argumentsOf(of);
  if (given === null) return null;
  return (
    <div class="question-arguments">
      {isRedacted(given) ? <RedactedChip needs={given.redacted} /> : <Json value={given} label="Arguments" />}
    </div>
  );
}

/** What was decided, and by whom. */
function Outcome({ of }: { of: Question }) {
  const shown = of.answer !== null && of.answer !== undefined;
  return (
    <>
      <p>
        <State state={of.state} />
        {of.decided_by && (
          <>
            {" "}
            by <Name text={of.decided_by} />
          </>
        )}{" "}
        <Ago time={of.decided_at} />
        {of.feedback !== null && (
          <>
            : <PayloadText text={of.feedback} />
          </>
        )}
      </p>
      {shown &&
        (isRedacted(of.answer) ? (
          <RedactedChip needs={of.answer.redacted} />
        ) : (
          <Json value={of.answer} label={of.kind === "tool" ? "Arguments that it ran with" : "Answer"} />
        ))}
    </>
  );
}

function Buttons({ of, keys, ask }: {
  of: Question;
  keys: boolean;
  ask: (decision: Decision, question: Question, value?: string) => void;
}) {
  const key = (letter: string) => (keys ? { keys: letter } : {});
  const hidden = isRedacted(argumentsOf(of));
  const choices = choicesOf(of);
  return (
    <div class="row-buttons">
      {of.kind !== "ask" ? (
        <>
          <Button needs="operate" kind="primary" {...key("A")} onClick={() => ask("approve", of)}>
            Approve…
          </Button>
          {of.kind === "tool" && (
            <Button
              needs="operate"
              disabled={hidden}
              why="You may not see the arguments: this needs the right payload:read."
              {...key("E")}
              onClick={() => ask("edit", of)}
            >
              Edit…
            </Button>
          )}
        </>
      ) : choices.length > 0 && choices.length <= BUTTONS && choices.every((one) => one.length <= SHORT) ? (
        choices.map((choice) => (
          <Button key={choice} needs="operate" onClick={() => ask("answer", of, choice)}>
            <Name text={choice} />
          </Button>
        ))
      ) : (
        <Button needs="operate" kind="primary" {...key("A")} onClick={() => ask("answer", of)}>
          Answer…
        </Button>
      )}
      <Button needs="operate" {...key("D")} onClick={() => ask("reject", of)}>
        Reject…
      </Button>
    </div>
  );
}
