// The dialogs of a question's decision: approve, approve with other arguments, answer, reject.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Question } from "../api.gen.ts";
import { action, asProblem, Problem, send } from "../api.ts";
import { visible } from "../format.ts";
import { Code } from "../parts/code.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Json } from "../parts/json.tsx";
import { Button } from "../parts/link.tsx";
import { LongText } from "../parts/long_text.tsx";
import { Fault, FunctionName, Name, RedactedChip } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { isRedacted } from "../rows.ts";
import { effectOf } from "../run_states.ts";
import { urls } from "../urls.ts";
import { argumentsOf, askedText, choicesOf, proposalOf, toolOf } from "./question_texts.ts";
import { jsonText, parseJson } from "../json_numbers.ts";

export type Decision = "approve" | "edit" | "answer" | "reject";

export interface Asked {
  readonly decision: Decision;
  readonly question: Question;
  /** The choice that was taken already. */
  readonly value?: string;
}

interface Props {
  readonly of: Asked;
  readonly close: () => void;
  readonly done: () => void;
}

export function DecisionDialog(props: Props) {
  switch (props.of.decision) {
    case "approve":
      return <Approve {...props} />;
    case "edit":
      return <Edit {...props} />;
    case "answer":
      return <Answer {...props} />;
    case "reject":
      return <Reject {...props} />;
  }
}

/** Sends a decision: by its button alone, never by Enter in a field. One that another person has made is shown. */
function Form({ title, verb: button, danger, wide, of, close, done, said, body, children }: Props & {
  title: string;
  verb: string;
  danger?: boolean;
  wide?: boolean;
  said: string;
  /** What is sent; a problem is shown in its place and nothing is sent. */
  body: () => Readonly<Record<string, unknown>> | Problem;
  children: ComponentChildren;
}) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const decided = problem?.status === 409;
  const leave = decided ? done : close;
  const decide = async () => {
    if (busy || decided) return;
    const sent = body();
    if (sent instanceof Problem) {
      setProblem(sent);
      return;
    }
    setBusy(true);
    setProblem(null);
    const verb = of.decision === "edit" ? "approve" : of.decision;
    const path = action(verb, "approvals", of.question.id);
    try {
      await send("POST", path, sent);
      const run = of.question.run_id;
      toast({ text: said, ...(run ? { link: { to: urls.run(run), text: "its run" } } : {}) });
      done();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={leave} {...(wide ? { wide } : {})}>
      <form onSubmit={(event) => event.preventDefault()}>
        {children}
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={leave}>{decided ? "Close" : "Cancel"}</Button>
          {!decided && (
            <Button kind={danger ? "danger" : "primary"} busy={busy} onClick={() => void decide()}>
              {button}
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

function Approve(props: Props) {
  return props.of.question.kind === "proposal" ? <ApproveProposal {...props} /> : <ApproveTool {...props} />;
}

function ApproveProposal(props: Props) {
  const { function: name } = props.of.question;
  const { version, persons } = proposalOf(props.of.question);
  return (
    <Form
      {...props}
      title={`Approve ${visible(name)}`}
      verb="Approve"
      said="It was approved"
      body={() => ({})}
    >
      <div class="dialog-text">
        {persons === "two" ? "A second person must approve " : "After that it becomes active, or begins its canary: "}
        <FunctionName name={name} version={version} />.
      </div>
    </Form>
  );
}

function ApproveTool(props: Props) {
  const { question } = props.of;
  const { tool, effect } = toolOf(question);
  const given = argumentsOf(question);
  const names = given === null || isRedacted(given) ? [] : Object.keys(given);
  const [again, setAgain] = useState(true);
  const [same, setSame] = useState<ReadonlySet<string>>(new Set(names));
  const turn = (name: string) => {
    const next = new Set(same);
    if (!next.delete(name)) next.add(name);
    setSame(next);
  };
  return (
    <Form
      {...props}
      title={`Approve ${visible(tool ?? "the tool")}`}
      verb="Approve"
      said="It was approved"
      body={() => (again ? {} : { always: [...same] })}
    >
      <div class="dialog-text stack">
        {effect === "acts" && (
          <p class="tone-warn">It {effectOf(effect).text}: what it does there is not undone by itself.</p>
        )}
        {isRedacted(given) ? <RedactedChip needs={given.redacted} /> : <Json value={given} label="Arguments" />}
      </div>
      <fieldset class="options">
        <legend>For the rest of this run</legend>
        <label class="option">
          <input type="radio" name="again" checked={again} onChange={() => setAgain(true)} />
          ask again each time
        </label>
        <label class="option">
          <input type="radio" name="again" checked={!again} onChange={() => setAgain(false)} />
          do not ask for {same.size ? "calls with the same" : "any call of it"}
        </label>
        {!again && (
          <div class="option-more">
            {names.map((name) => (
              <label key={name} class="option">
                <input type="checkbox" checked={same.has(name)} onChange={() => turn(name)} />
                <Name text={name} mono />
              </label>
            ))}
            {!same.size && <p class="tone-warn">The tool then runs with whatever the model writes.</p>}
          </div>
        )}
      </fieldset>
    </Form>
  );
}

function Edit(props: Props) {
  const { question } = props.of;
  const [text, setText] = useState(() => jsonText(argumentsOf(question), 2));
  const body = () => {
    try {
      return { arguments: parseJson(text) };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return new Problem(400, "the arguments are no JSON", why, "mend them, or cancel");
    }
  };
  return (
    <Form
      {...props}
      title={`Edit the arguments of ${visible(toolOf(question).tool ?? "the tool")}`}
      verb="Approve these"
      said="It was approved with your arguments"
      wide
      body={body}
    >
      <div class="dialog-text stack">
        <p class="dim">The tool runs with exactly these. Esc, then Tab leaves the editor.</p>
        <Code value={text} language="json" label="Arguments" size="middle" onChange={setText} autoFocus />
      </div>
    </Form>
  );
}

function Answer(props: Props) {
  const { question, value } = props.of;
  const choices = choicesOf(question);
  const [answer, setAnswer] = useState(value ?? choices[0] ?? "");
  const [feedback, setFeedback] = useState("");
  const empty = () => new Problem(400, "the answer is empty", "the run gets it as it is", "write one, or reject");
  return (
    <Form
      {...props}
      title="Answer"
      verb="Answer"
      said="It was answered"
      body={() => (answer.trim() ? { answer, feedback } : empty())}
    >
      <div class="dialog-text">
        <LongText of={askedText(question)} prose />
      </div>
      {choices.length > 0 ? (
        <fieldset class="options">
          <legend>Answer</legend>
          {choices.map((choice) => (
            <label key={choice} class="option">
              <input
                type="radio"
                name="answer"
                checked={answer === choice}
                onChange={() => setAnswer(choice)}
              />
              <Name text={choice} />
            </label>
          ))}
        </fieldset>
      ) : (
        <label class="field">
          <span>Answer</span>
          <textarea rows={4} value={answer} onInput={(event) => setAnswer(event.currentTarget.value)} />
        </label>
      )}
      <Words label="Words with it, for the run" value={feedback} set={setFeedback} />
    </Form>
  );
}

const WHAT: Readonly<Record<string, (of: Question) => string | null>> = {
  tool: (of) => toolOf(of).tool,
  proposal: (of) => of.function,
};
const REJECTED: Readonly<Record<string, string>> = {
  tool: "The tool does not run. The run goes on, and gets your words as the result.",
  ask: "The run goes on without an answer, and gets your words.",
  proposal: "The version does not become active. Who proposed it gets your words.",
};

function Reject(props: Props) {
  const { question } = props.of;
  const [feedback, setFeedback] = useState("");
  return (
    <Form
      {...props}
      title={`Reject ${visible(WHAT[question.kind]?.(question) ?? "the question")}`}
      verb="Reject"
      danger
      said="It was rejected"
      body={() => ({ feedback })}
    >
      <div class="dialog-text">
        {REJECTED[question.kind] ?? ""}
      </div>
      <Words label={question.run_id ? "Why, for the run" : "Why"} value={feedback} set={setFeedback} />
    </Form>
  );
}

function Words({ label, value, set }: { label: string; value: string; set: (text: string) => void }) {
  return (
    <label class="field">
      <span>{label}</span>
      <textarea rows={3} value={value} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
}
