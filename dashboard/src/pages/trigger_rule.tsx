// The rule of a trigger: the text at the left, the newest events with a verdict each in the middle, the effect at the
// right. Events are judged anew 150 ms after a key.

import { useMemo, useState } from "preact/hooks";
import type {
  Cycle,
  DraftProblem,
  Clause,
  Preview,
  PreviewEvent,
  SavedTrigger,
  Trigger,
} from "../api.gen.ts";
import { asProblem, type Problem, route, send } from "../api.ts";
import { useAsked } from "../asked.ts";
import { fieldsOf, type Word } from "../completions.ts";
import { isPending, useData } from "../data.ts";
import { draftOf, keepDraft } from "../drafts.ts";
import { count, nameText, plural, visible } from "../format.ts";
import { compactJson } from "../json_text.ts";
import { placeOf, placeOfProblem } from "../json_places.ts";
import { type Schema, typedJson } from "../json_form.ts";
import { useKeys } from "../keys.ts";
import { Code, type Diagnostic } from "../parts/code.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { canonical, Diff } from "../parts/diff.tsx";
import { Form } from "../parts/form.tsx";
import { Json } from "../parts/json.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Fault, Mark, More, Name, PayloadText, RedactedChip, Skeleton, Waits } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { place, setQuery } from "../router.ts";
import { type Event, isRedacted } from "../rows.ts";
import type { Page } from "../rows.ts";
import { can } from "../session.ts";
import {
  definitionOf,
  type Draft,
  draftForEvent,
  draftFrom,
  essence,
  fitsForm,
  matchesAll,
  type TextFault,
  withClause,
} from "../trigger_draft.ts";
import { urls } from "../urls.ts";
import { ChangedMeanwhile } from "./changed_meanwhile.tsx";
import { Backtest } from "./trigger_backtest.tsx";

export interface Rule {
  readonly version: number;
  readonly definition: Readonly<Record<string, unknown>>;
  readonly cycle: Cycle | null;
  readonly warnings: readonly string[];
}

interface RuleDraft extends Draft {
  /** The version that the draft began with; 0 for a new trigger. */
  readonly base: number;
  /** The whole definition as text, while it is edited so. */
  readonly text?: string;
  readonly name?: string;
}

const PAUSE = 150;
const NO_PROBLEMS: readonly DraftProblem[] = [];
const NAME = /^[A-Za-z0-9_][\w.-]*$/;

const GUARDS: Schema = {
  type: "object",
  properties: {
    max_revisits: {
      type: "integer",
      title: "Max revisits",
      description: "How often its function may run again in one chain; 1 without it.",
    },
    max_depth: { type: "integer", title: "Max depth" },
    budget: { type: "integer", title: "Budget", description: "Executions of one tree." },
    rate: { type: "integer", title: "Rate a minute", description: "0: no limit." },
    source_rate: { type: "integer", title: "Rate a minute of one source" },
    repeat_rate: { type: "integer", title: "Rate a minute of equal events" },
    acknowledge_cycle: { type: "integer", title: "Accept a cycle", description: "Up to so many rounds." },
    allow_self: { type: "boolean", title: "May react to its own function" },
  },
};

export function RuleEditor({
  stored,
  name,
  onSaved,
}: {
  stored: Rule | null;
  name: string | null;
  onSaved: (saved: Trigger) => void;
}) {
  const chosen = place.value.query.get("event");
  const event = useData<Event>(chosen ? route("events", chosen) : null);
  const key = name ? `trigger:${name}` : `new-trigger:${chosen ?? ""}`;
  const begun = useMemo(
    () => (stored ? draftFrom(stored.definition) : draftForEvent(event.data?.type ?? "order.created")),
    [stored?.version, name, event.data?.type],
  );
  const kept = draftOf<RuleDraft>(key);
  const asText = stored !== null && !fitsForm(stored.definition);
  const draft: RuleDraft = kept ?? {
    ...begun,
    base: stored?.version ?? 0,
    ...(asText ? { text: compactJson(stored.definition) } : {}),
  };
  const edit = (changes: Partial<RuleDraft>) => keepDraft(key, { ...draft, ...changes });
  const editable = can("author");
  const { definition, faults } = read(draft);
  const changed = !stored || canonical(essence(definition)) !== canonical(essence(stored.definition));
  const newName = name ?? draft.name ?? "";
  const [saving, setSaving] = useState(false);

  // A draft without a function is judged as well: only its pattern and condition count.
  const nameless = draft.text === undefined && draft.function.trim() === "";
  const judged = nameless ? { ...definition, function: "none" } : definition;
  // The draft begins with the type of the event: until it is known there is nothing to judge.
  const waits = kept === null && chosen !== null && isPending(event);
  const body =
    editable && !faults.length && !waits
      ? { draft: judged, limit: 50, ...(name ? { name } : {}), ...(chosen ? { event: chosen } : {}) }
      : null;
  const preview = useAsked<Preview>("/triggers:preview", body, PAUSE);
  const found = preview.answer;
  // A stored rule that is not edited is in force, whatever a save of it would say today.
  const judgements = changed ? (found?.problems ?? NO_PROBLEMS) : NO_PROBLEMS;
  const problems = judgements.filter((one) => !(nameless && one.pointer === "/function"));
  // What the editors complete is asked for when one of them is used, not when the page opens.
  const [used, setUsed] = useState(false);
  const types = useData<readonly string[]>(used ? "/events/types" : null);
  const functions = useData<Page<{ name: string }>>(used ? "/functions" : null, { limit: 1000, fields: "name" });
  const data = event.data && !isRedacted(event.data.data) ? event.data.data : null;
  const words = useMemo<readonly Word[]>(
    () => [
      ...(types.data ?? []).map((label): Word => ({ label, kind: "type" })),
      ...(functions.data?.items ?? []).map((one): Word => ({ label: one.name, kind: "function" })),
      ...fieldsOf(data),
    ],
    [types.data, functions.data, data],
  );
  const certain = problems.filter((one) => one.certain);
  const ready =
    editable && changed && !faults.length && !certain.length && !preview.stale && !nameless && NAME.test(newName);
  const why = !changed
    ? "Nothing has changed."
    : faults.length || certain.length
      ? "The rule has a fault."
      : nameless
        ? "It needs a function."
        : !NAME.test(newName)
          ? "It needs a name of letters, digits, dots, dashes and underscores."
          : undefined;
  const next = stored ? stored.version + 1 : 1;
  useKeys("Rule", [
    { keys: "Ctrl+S", label: "Save", run: () => ready && setSaving(true), when: editable },
    { keys: "Ctrl+Shift+D", label: "Show the difference", run: () => changed && setSaving(true), when: editable },
  ]);
  const pick = (path: string, value: unknown) => {
    const { value: on, problem } = typedJson(draft.on);
    if (!problem) edit({ on: compactJson(withClause(on, path, value)) });
  };

  return (
    <div class="rule" onKeyDown={leaveField} onFocusIn={() => setUsed(true)}>
      <section class="rule-column" aria-label="Rule">
        {chosen && isPending(event) && <Waits />}
        {!name && (
          <label class="field">
            <span>Name</span>
            <input
              value={newName}
              spellcheck={false}
              autocomplete="off"
              placeholder="on-order-received"
              onInput={(input) => edit({ name: input.currentTarget.value })}
            />
          </label>
        )}
        {stored && draft.base !== stored.version && (
          <p class="notice">
            v{stored.version} was saved while you edited.{" "}
            <Link to={urls.trigger(name ?? "", { tab: "versions" })}>What changed</Link>
          </p>
        )}
        <RuleText draft={draft} faults={faults} problems={problems} words={words} {...(editable ? { edit } : {})} />
        <div class="code-bar">
          {editable && (
            <Button
              kind="primary"
              keys="Ctrl S"
              disabled={!ready}
              {...(why ? { why } : {})}
              onClick={() => setSaving(true)}
            >
              {stored ? `Save as v${next}` : "Save the trigger"}
            </Button>
          )}
          {editable && kept && (
            <Button kind="plain" onClick={() => keepDraft(key, null)}>
              Discard changes
            </Button>
          )}
          <span class="spacer" />
          <FormOrText draft={draft} definition={definition} faults={faults} edit={edit} />
        </div>
        {(waits || (body && !found && !preview.error)) && <Waits />}
        <Problems of={problems} />
        {!editable && <p class="dim">Changes need the role author.</p>}
        {chosen && event.data && (
          <div class="rule-event">
            <h2>
              <Name text={event.data.type} /> <PayloadText text={event.data.subject} />{" "}
              <More to={urls.event(chosen)}>event</More>
            </h2>
            {editable && draft.text === undefined && !draft.composite && (
              <p class="dim">“use” adds a value to the pattern.</p>
            )}
            <Json
              value={event.data.data}
              root="data"
              label="Data"
              {...(editable && draft.text === undefined && !draft.composite ? { onPick: pick } : {})}
            />
          </div>
        )}
      </section>
      <section class="rule-column" aria-label="Preview">
        {editable && (
          <Backtest name={name} definition={definition} valid={!faults.length && !certain.length && !nameless} />
        )}
        <PreviewList
          preview={found}
          stale={preview.stale || faults.length > 0}
          error={preview.error}
          chosen={chosen}
          allowed={editable}
        />
      </section>
      <section class="rule-column" aria-label="Effect">
        <Effect
          draft={draft}
          preview={found}
          functions={functions.data?.items.map((one) => one.name) ?? []}
          problems={problems}
          faults={faults}
          words={words}
          cycle={found ? found.cycle : (stored?.cycle ?? null)}
          {...(editable ? { edit } : {})}
        />
      </section>
      {saving && (
        <SaveDialog
          name={newName}
          stored={stored}
          definition={definition}
          base={draft.base}
          preview={found}
          onClose={() => setSaving(false)}
          onSaved={(saved) => {
            setSaving(false);
            keepDraft(key, null);
            onSaved(saved);
          }}
        />
      )}
    </div>
  );
}

function leaveField(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.key !== "Escape" || !/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
  event.stopPropagation();
  target.blur();
}

/** The definition of a draft, from its whole text or from its parts. */
function read(draft: RuleDraft): { definition: Record<string, unknown>; faults: readonly TextFault[] } {
  if (draft.text === undefined) return definitionOf(draft);
  const { value, problem } = typedJson(draft.text);
  if (problem) return { definition: {}, faults: [{ field: "text", what: problem }] };
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return { definition: {}, faults: [{ field: "text", what: "a definition is an object" }] };
  return { definition: value as Record<string, unknown>, faults: [] };
}

/** Faults of a text: that of its JSON, else those of the server below `pointer`. */
function marks(
  text: string,
  field: TextFault["field"],
  pointer: string,
  faults: readonly TextFault[],
  problems: readonly DraftProblem[],
): readonly Diagnostic[] {
  const fault = faults.find((one) => one.field === field);
  if (fault) return [{ ...placeOfProblem(text, fault.what), severity: "error", message: fault.what }];
  return problems
    .filter((one) => one.pointer === pointer || one.pointer.startsWith(`${pointer}/`))
    .map((one) => ({
      ...(placeOf(text, one.pointer.slice(pointer.length)) ?? { line: 1 }),
      severity: one.certain ? "error" : "warning",
      message: [one.what, one.why, one.try].filter(Boolean).join("\n"),
    }));
}

function RuleText({
  draft,
  edit,
  faults,
  problems,
  words,
}: {
  draft: RuleDraft;
  edit?: (changes: Partial<RuleDraft>) => void;
  faults: readonly TextFault[];
  problems: readonly DraftProblem[];
  words: readonly Word[];
}) {
  const { text } = draft;
  const whole = useMemo(
    () => (text === undefined ? [] : marks(text, "text", "", faults, problems)),
    [text, faults.length, problems],
  );
  const root = draft.composite ? "/composite" : "/on";
  const on = useMemo(() => marks(draft.on, "on", root, faults, problems), [draft.on, faults.length, problems]);
  const when = useMemo<readonly Diagnostic[]>(
    () =>
      problems
        .filter((one) => one.pointer === "/when")
        .map((one) => ({
          line: Number(/^(\d+):\d+/.exec(one.why)?.[1] ?? 1),
          column: Math.max(0, Number(/^\d+:(\d+)/.exec(one.why)?.[1] ?? 1) - 1),
          severity: "error",
          message: [one.what, one.why.split("\n")[0], one.try].filter(Boolean).join("\n"),
        })),
    [problems],
  );
  if (text !== undefined)
    return (
      <Code
        size="tall"
        language="json"
        label="Definition"
        value={text}
        diagnostics={whole}
        words={words}
        {...(edit ? { onChange: (changed: string) => edit({ text: changed }) } : {})}
      />
    );
  return (
    <>
      <div class="rule-part">
        <h2>{draft.composite ? "When these events come" : "When an event matches"}</h2>
        <Code
          size="middle"
          language="json"
          label={draft.composite ? "Composite" : "Pattern"}
          value={draft.on}
          diagnostics={on}
          words={words}
          {...(edit ? { onChange: (changed: string) => edit({ on: changed }) } : {})}
        />
      </div>
      <div class="rule-part">
        <h2>
          and when <span class="dim">(CEL)</span>
        </h2>
        <Code
          size="small"
          language="cel"
          label="Condition"
          value={draft.when}
          hint="data.amount > 100 && data.country != 'XX'"
          diagnostics={when}
          words={words}
          {...(edit ? { onChange: (changed: string) => edit({ when: changed }) } : {})}
        />
      </div>
    </>
  );
}

function FormOrText({
  draft,
  definition,
  faults,
  edit,
}: {
  draft: RuleDraft;
  definition: Readonly<Record<string, unknown>>;
  faults: readonly TextFault[];
  edit: (changes: Partial<RuleDraft>) => void;
}) {
  const isText = draft.text !== undefined;
  const fits = !faults.length && fitsForm(definition);
  return (
    <div class="switch" role="group" aria-label="Form or text">
      <button
        type="button"
        class="link"
        aria-pressed={!isText}
        disabled={isText && !fits}
        title={isText && !fits ? "The form cannot show this definition." : undefined}
        onClick={() => {
          if (!isText) return;
          const { text: _, ...rest } = { ...draft, ...draftFrom(definition) };
          keepWithoutText(rest, edit);
        }}
      >
        form
      </button>
      <button
        type="button"
        class="link"
        aria-pressed={isText}
        disabled={!isText && faults.length > 0}
        onClick={() => !isText && edit({ text: compactJson(definition) })}
      >
        text
      </button>
    </div>
  );
}

function keepWithoutText(draft: RuleDraft, edit: (changes: Partial<RuleDraft>) => void): void {
  edit({ ...draft, text: undefined } as unknown as Partial<RuleDraft>);
}

function Problems({ of }: { of: readonly DraftProblem[] }) {
  if (!of.length) return null;
  return (
    <ul class="findings" aria-label="Problems">
      {of.map((one) => (
        <li key={`${one.pointer} ${one.what}`} class={one.certain ? "tone-bad" : "tone-warn"}>
          <Mark name={one.certain ? "failed" : "warning"} />
          <span>
            {one.pointer && <code>{one.pointer}</code>} {visible(one.what)}
            {one.why && <span class="dim"> {visible(one.why.split("\n")[0] ?? "")}</span>}
            {one.try && <span class="dim"> Try: {visible(one.try)}</span>}
          </span>
        </li>
      ))}
    </ul>
  );
}

function PreviewList({
  preview,
  stale,
  error,
  chosen,
  allowed,
}: {
  preview: Preview | null;
  stale: boolean;
  error: Problem | null;
  chosen: string | null;
  allowed: boolean;
}) {
  if (!allowed) return <p class="dim">The preview needs the role author.</p>;
  if (error) return <Fault error={error} />;
  if (!preview) return <Skeleton rows={6} />;
  const { counts, stored } = preview;
  return (
    <div class={stale ? "preview stale" : "preview"} aria-busy={stale}>
      <div class="preview-head" role="status">
        <span>
          <b>{count(counts.matched)}</b> of the newest {plural(counts.of, "event")} match
        </span>
        {stored && (stored.added > 0 || stored.removed > 0) && (
          <span class="dim">
            v{stored.version}: {count(stored.matched)} <span class="tone-bad">−{count(stored.removed)}</span>{" "}
            <span class="tone-ok">+{count(stored.added)}</span>
          </span>
        )}
      </div>
      {counts.of === 0 && (
        <p class="dim">No stored event is of a type that it could match. It is judged as soon as one comes.</p>
      )}
      {counts.of > 0 && (
        <ul class="verdicts">
          {preview.events.map((one) => (
            <VerdictRow key={one.event.id} of={one} open={one.event.id === chosen} />
          ))}
        </ul>
      )}
    </div>
  );
}

function VerdictRow({ of, open }: { of: PreviewEvent; open: boolean }) {
  const { event } = of;
  const differs = of.stored !== null && of.stored.matched !== of.matched;
  return (
    <li class={`verdict ${of.matched ? "yes" : "no"} ${differs ? "differs" : ""}`}>
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setQuery({ event: open ? null : event.id })}
        title={
          differs ? (of.matched ? "The stored version does not match" : "The stored version matches") : undefined
        }
      >
        <Mark
          name={of.matched ? "succeeded" : "nomatch"}
          tone={of.matched ? "ok" : "off"}
          label={of.matched ? "matches" : "no match"}
        />
        <span class="verdict-what">
          {event.subject ? <PayloadText text={event.subject} /> : <Name text={event.type} />}
          {differs && <span class={of.matched ? "tone-ok" : "tone-bad"}> {of.matched ? "+" : "−"}</span>}
        </span>
        <span class="dim verdict-when">
          <Ago time={event.time} />
        </span>
        {!of.matched && of.reason && !open && (
          <span class="verdict-why dim">
            <PayloadText text={of.reason} />
          </span>
        )}
      </button>
      {open && (
        <div class="verdict-detail">
          <ClauseList of={of.clauses} />
          {of.recorded && (
            <p class="dim">
              v{of.recorded.version} {of.recorded.decision}
              {of.recorded.reason && `: ${of.recorded.reason.replaceAll("_", " ")}`}{" "}
              {of.recorded.execution_id && <More to={urls.execution(of.recorded.execution_id)}>execution</More>}
            </p>
          )}
        </div>
      )}
    </li>
  );
}

/** The clauses of a trigger about an event; those that do not hold first. */
export function ClauseList({ of }: { of: readonly Clause[] }) {
  const rows = [...of].sort((a, b) => Number(a.matched) - Number(b.matched));
  return (
    <ul class="clauses">
      {rows.map((one) => (
        <li key={`${one.path} ${one.expected}`} class={one.matched ? "" : "tone-bad"}>
          <Mark
            name={one.matched ? "succeeded" : "failed"}
            tone={one.matched ? "ok" : "bad"}
            label={one.matched ? "holds" : "does not hold"}
          />
          <code>{nameText(one.path)}</code>
          <span>
            expected {nameText(one.expected)}
            {!one.matched && ";"}
          </span>
          {!one.matched && (
            <span>
              found{" "}
              {isRedacted(one.found) ? (
                <RedactedChip needs={one.found.redacted} />
              ) : (
                <code>{nameText(one.found)}</code>
              )}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function Effect({
  draft,
  edit,
  preview,
  functions,
  problems,
  faults,
  words,
  cycle,
}: {
  draft: RuleDraft;
  edit?: (changes: Partial<RuleDraft>) => void;
  preview: Preview | null;
  functions: readonly string[];
  problems: readonly DraftProblem[];
  faults: readonly TextFault[];
  words: readonly Word[];
  cycle: Cycle | null;
}) {
  const form = draft.text === undefined;
  const input = useMemo(
    () => marks(draft.input, "input", "/input", faults, problems),
    [draft.input, faults.length, problems],
  );
  const flow = useMemo(
    () => marks(draft.flow, "flow", "/flow", faults, problems),
    [draft.flow, faults.length, problems],
  );
  const unknown =
    draft.function !== "" && functions.length > 0 && !functions.includes(draft.function.split("@")[0] ?? "");
  const nameless = form && draft.function.trim() === "";
  const rendered = nameless ? null : (preview?.input ?? null);
  const guardFaults = problems
    .filter((one) => one.pointer.startsWith("/guards/"))
    .map((one) => ({ pointer: one.pointer, what: [one.what, one.why].filter(Boolean).join(": ") }));
  return (
    <>
      {form && (
        <>
          <label class="field">
            <span>runs the function</span>
            <input
              list="functions-of-trigger"
              value={draft.function}
              spellcheck={false}
              autocomplete="off"
              placeholder="name, or name@3"
              readOnly={!edit}
              aria-invalid={unknown || undefined}
              onInput={(event) => edit?.({ function: event.currentTarget.value })}
            />
            {unknown && <span class="field-note">No function of this name is among the first hundred.</span>}
          </label>
          <datalist id="functions-of-trigger">
            {functions.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
          <div class="rule-part">
            <h2>with the input</h2>
            <Code
              size="small"
              language="json"
              label="Input template"
              value={draft.input}
              hint={'empty: the event; or {"order": "{{ data }}"}'}
              diagnostics={input}
              words={words}
              {...(edit ? { onChange: (changed: string) => edit({ input: changed }) } : {})}
            />
          </div>
        </>
      )}
      {rendered && (
        <div class="rule-part">
          <h2>
            {rendered.problem ? (
              <span class="tone-bad">
                <Mark name="failed" /> the input does not fit
              </span>
            ) : (
              <span>
                <Mark name="succeeded" tone="ok" /> the input for this event fits
              </span>
            )}
          </h2>
          {rendered.problem && (
            <p class="tone-bad">
              <PayloadText text={rendered.problem} />
            </p>
          )}
          <Json value={rendered.input} label="Rendered input" />
        </div>
      )}
      {!nameless && <CycleNote of={cycle} />}
      {form && (
        <details class="rule-part">
          <summary>
            Guards{" "}
            <span class="dim">
              {Object.entries(draft.guards)
                .map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value)}`)
                .join(", ") || "as the settings say"}
            </span>
          </summary>
          <Form
            schema={GUARDS}
            value={draft.guards}
            faults={guardFaults}
            pointer="/guards"
            label="Guards"
            onChange={(value) => edit?.({ guards: (value ?? {}) as Record<string, unknown> })}
          />
        </details>
      )}
      {form && (
        <details class="rule-part" open={draft.flow !== "" || undefined}>
          <summary>
            Flow control <span class="dim">{draft.flow ? "" : "none"}</span>
          </summary>
          <Code
            size="small"
            language="json"
            label="Flow control"
            value={draft.flow}
            hint='{"rate_limit": {"limit": 3, "period": "1m"}}'
            diagnostics={flow}
            words={words}
            {...(edit ? { onChange: (changed: string) => edit({ flow: changed }) } : {})}
          />
        </details>
      )}
      {form && Object.keys(essence(draft.rest)).length > 0 && (
        <div class="rule-part">
          <h2>and as text</h2>
          <Json value={essence(draft.rest)} label="Other fields" />
        </div>
      )}
    </>
  );
}

/** The cycle that a rule closes, with its witness and what stops it. */
export function CycleNote({ of }: { of: Cycle | null }) {
  if (!of)
    return (
      <p class="rule-part">
        <Mark name="succeeded" tone="ok" /> It closes no cycle.
      </p>
    );
  return (
    <div class="rule-part cycle-note">
      <p class="tone-bad">
        <Mark name="retrying" /> It closes a cycle.
      </p>
      <ol>
        {of.steps.map((step, at) => (
          <li key={at}>
            <Link to={urls.trigger(step.trigger)}>
              <Name text={step.trigger} />
            </Link>{" "}
            runs{" "}
            <Link to={urls.function(step.function)}>
              <Name text={step.function} />
            </Link>
            , whose <Name text={step.event} /> {step.certain ? "starts" : "may start"} <Name text={step.target} />
          </li>
        ))}
      </ol>
      {of.guards.map((guard) => (
        <p key={guard.trigger} class="dim">
          <Name text={guard.trigger} /> stops it after {plural(guard.max_revisits, "revisit")}
          {guard.max_depth !== null && `, at depth ${count(guard.max_depth)}`}
          {guard.acknowledge_cycle !== null && `, accepted up to ${count(guard.acknowledge_cycle)}`}.
        </p>
      ))}
    </div>
  );
}

function SaveDialog({
  name,
  stored,
  definition,
  base,
  preview,
  onClose,
  onSaved,
}: {
  name: string;
  stored: Rule | null;
  definition: Record<string, unknown>;
  base: number;
  preview: Preview | null;
  onClose: () => void;
  onSaved: (saved: SavedTrigger) => void;
}) {
  const [shadow, setShadow] = useState(false);
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Problem | null>(null);
  const everything = matchesAll(definition);
  const ready = !everything || typed === name;
  const counts = preview?.counts;
  const save = async (over = base) => {
    if (busy || !ready) return;
    setBusy(true);
    setError(null);
    try {
      const saved = await send<SavedTrigger>(
        "PUT",
        route("triggers", name),
        { definition, shadow },
        { once: true, ifMatch: over },
      );
      toast({
        text: saved.created ? `Saved ${name} v${saved.version}` : `v${saved.version} is this rule already`,
        link: { to: urls.trigger(name, { tab: "firings" }), text: "its firings" },
      });
      onSaved(saved);
    } catch (fault) {
      setError(asProblem(fault));
      setBusy(false);
    }
  };
  return (
    <Dialog title={stored ? `Save ${name} as v${stored.version + 1}` : `Save ${name}`} wide onClose={onClose}>
      <form
        class="save"
        onSubmit={(event) => {
          event.preventDefault();
          if (!everything) void save();
        }}
      >
        {stored && (
          <Diff
            before={canonical(essence(stored.definition))}
            after={canonical(essence(definition))}
            language="json"
            labels={[`v${stored.version}`, `v${stored.version + 1}`]}
          />
        )}
        {counts && (
          <p>
            It matches {count(counts.matched)} of the newest {plural(counts.of, "event")}
            {preview.stored && `; v${preview.stored.version} matches ${count(preview.stored.matched)}`}.
          </p>
        )}
        {preview?.cycle && <CycleNote of={preview.cycle} />}
        {!stored && (
          <label class="field-check">
            <input type="checkbox" checked={shadow} onChange={(event) => setShadow(event.currentTarget.checked)} />
            <span>Shadow: record its decisions, run nothing</span>
          </label>
        )}
        {everything && (
          <label class="field">
            <span class="tone-bad">
              The pattern is empty: it matches every event. Type <code>{name}</code>
            </span>
            <input value={typed} autocomplete="off" onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        )}
        {error && <Fault error={error} />}
        <ChangedMeanwhile
          error={error}
          base={base}
          changes={() => urls.trigger(name, { tab: "versions" })}
          saveOver={(current) => void save(current)}
        />
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind={everything ? "danger" : "primary"}
            type={everything ? "button" : "submit"}
            disabled={!ready}
            busy={busy}
            needs="author"
            {...(everything ? { onClick: () => void save() } : {})}
          >
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
