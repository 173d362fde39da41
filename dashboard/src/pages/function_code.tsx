// The code of a function: it is checked while it is typed, and saved after a look at what changes.

import { useMemo, useState } from "preact/hooks";
import type {
  BrokenContract,
  Check,
  Function as FunctionDetail,
  FunctionRow,
  SavedFunction,
} from "../api.gen.ts";
import { action, asProblem, type Problem, route, send } from "../api.ts";
import { useAsked } from "../asked.ts";
import type { Word } from "../completions.ts";
import { useData } from "../data.ts";
import { draftOf, keepDraft } from "../drafts.ts";
import { plural, visible } from "../format.ts";
import { useKeys } from "../keys.ts";
import { Code, type Diagnostic } from "../parts/code.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { Diff } from "../parts/diff.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Fault, Mark, Name, Waits } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { place } from "../router.ts";
import type { Page } from "../rows.ts";
import { can } from "../session.ts";
import { nameIn } from "../source_name.ts";
import { urls } from "../urls.ts";
import { ChangedMeanwhile } from "./changed_meanwhile.tsx";

interface Draft {
  readonly source: string;
  /** The active version that the draft began with; 0 for a new function. */
  readonly base: number;
}

const EMPTY = "def NAME(text: str) -> str:\n    return text.upper()\n";
const PAUSE = 300;
const NAME = /^[A-Za-z_][\w.-]*$/;

export function CodeTab({
  row,
  onSaved,
}: {
  row: FunctionDetail | null;
  onSaved: (saved: FunctionDetail) => void;
}) {
  const key = `function:${row?.name ?? ""}`;
  const from = Number(place.value.query.get("from")) || null;
  const old = useData<FunctionDetail>(row && from ? `${route("functions", row.name)}/versions/${from}` : null);
  const stored = row?.source ?? EMPTY.replace("NAME", "shout");
  const draft = draftOf<Draft>(key);
  const source = draft?.source ?? old.data?.source ?? stored;
  const base = draft?.base ?? row?.active ?? 0;
  const changed = row === null || source !== stored;
  const name = row?.name ?? nameIn(source);
  const editable = can("author");
  const [saving, setSaving] = useState(false);
  const [line, setLine] = useState<{ line: number } | null>(null);

  const check = useAsked<Check>(
    action("check", "functions", NAME.test(name) ? name : "draft"),
    editable && (changed || row !== null) ? { source } : null,
    PAUSE,
  );
  // What the editor completes is asked for when it is used, not when the page opens.
  const [used, setUsed] = useState(false);
  const names = useData<Page<Pick<FunctionRow, "name" | "active">>>(
    used ? "/functions" : null,
    { limit: 1000, fields: "name,active" },
  );
  const words = useMemo<readonly Word[]>(
    () =>
      names.data?.items.map((one) => ({ label: one.name, kind: "function" as const, detail: `v${one.active}` })) ??
      [],
    [names.data],
  );
  const found = check.answer;
  const diagnostics = useMemo<readonly Diagnostic[]>(() => diagnosticsOf(found), [found]);
  const broken = found?.contract.filter((one) => one.certain) ?? [];
  const wrong = Boolean(found?.problem) && !check.stale;
  const ready = editable && changed && !wrong && NAME.test(name);
  const next = (changed && found?.number) || (row?.latest ?? 0) + 1;
  const why = !changed ? "Nothing has changed." : wrong ? "The source has a fault." : undefined;

  useKeys("Editor", [
    { keys: "Ctrl+S", label: "Save", run: () => ready && setSaving(true), when: editable },
    { keys: "Ctrl+Shift+D", label: "Show the difference", run: () => changed && setSaving(true), when: editable },
  ]);
  const edit = (text: string) => keepDraft(key, text === row?.source ? null : { source: text, base });

  return (
    <div class="workbench-main" onFocusIn={() => setUsed(true)}>
      {row && base !== (row.active ?? 0) && (
        <p class="notice">
          v{row.active} became active while you edited.{" "}
          <Link to={urls.version(row.name, row.active ?? 1)}>Look at it</Link>
        </p>
      )}
      <Code
        size="tall"
        language="python"
        label={`Source of ${name}`}
        value={source}
        diagnostics={diagnostics}
        words={words}
        line={line}
        {...(editable ? { onChange: edit } : {})}
      />
      <div class="code-bar">
        {editable && (
          <Button
            kind="primary"
            keys="Ctrl S"
            disabled={!ready}
            {...(why ? { why } : {})}
            onClick={() => setSaving(true)}
          >
            {row ? `Save as v${next}` : `Save ${name || "the function"}`}
          </Button>
        )}
        {editable && row && changed && (
          <Button kind="plain" onClick={() => keepDraft(key, null)}>
            Discard changes
          </Button>
        )}
        {row && row.number > 1 && (
          <Link to={urls.diff(row.name, row.number - 1, row.number)}>
            compare v{row.number} with v{row.number - 1}
          </Link>
        )}
        <span class="spacer" />
        {editable && <CheckState check={found} stale={check.stale} />}
        {!editable && <span class="dim">Changes need the role author.</span>}
      </div>
      {editable && row && !found && !check.error && <Waits />}
      {check.error && <Fault error={check.error} />}
      {found && <Findings of={found} goTo={(at) => setLine({ line: at })} />}
      {broken.length > 0 && <Contract of={broken} />}
      {saving && (
        <SaveDialog
          name={name}
          row={row}
          source={source}
          base={base}
          next={next}
          check={found}
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

function diagnosticsOf(check: Check | null): readonly Diagnostic[] {
  if (!check) return [];
  const { problem } = check;
  const fault: Diagnostic[] = problem
    ? [
        {
          line: problem.line ?? 1,
          column: problem.column ?? 0,
          severity: "error",
          message: [problem.what, problem.why, problem.try].filter(Boolean).join("\n"),
        },
      ]
    : [];
  const advice = check.findings
    .filter((one) => one.line > 0)
    .map((one): Diagnostic => ({
      line: one.line,
      column: one.column,
      severity: one.severity === "error" ? "error" : one.severity === "info" ? "info" : "warning",
      message: [one.message, one.detail].filter(Boolean).join("\n"),
    }));
  return [...fault, ...advice];
}

function CheckState({ check, stale }: { check: Check | null; stale: boolean }) {
  if (stale || !check) return <span class="dim">checking</span>;
  if (check.problem) return <span class="tone-bad">{visible(check.problem.what)}</span>;
  if (check.findings.length) return <span class="tone-warn">{plural(check.findings.length, "finding")}</span>;
  return <span class="tone-ok">no findings</span>;
}

function Findings({ of, goTo }: { of: Check; goTo: (line: number) => void }) {
  const { problem, findings, warnings, packages_known: known } = of;
  if (!problem && !findings.length && !warnings.length && known) return null;
  return (
    <ul class="findings" aria-label="Findings">
      {problem && (
        <li class="tone-bad">
          <Mark name="failed" />
          <Place line={problem.line} goTo={goTo} />
          <span>
            {visible(problem.what)}
            {problem.why && <span class="dim"> {visible(problem.why.split("\n")[0] ?? "")}</span>}
          </span>
        </li>
      )}
      {findings.map((one, at) => (
        <li key={at} class={one.severity === "error" ? "tone-bad" : "tone-warn"}>
          <Mark name="warning" />
          <Place line={one.line} goTo={goTo} />
          <span>
            {visible(one.message)} {one.detail && <span class="dim">{visible(one.detail)}</span>}
          </span>
        </li>
      ))}
      {warnings
        .filter((text) => !findings.some((one) => text.includes(one.message)))
        .map((text) => (
          <li key={text} class="tone-warn">
            <Mark name="warning" />
            <span>{visible(text)}</span>
          </li>
        ))}
      {!known && (
        <li class="dim">
          <Mark name="pack" />
          <span>A save installs its packages first.</span>
        </li>
      )}
    </ul>
  );
}

function Place({ line, goTo }: { line: number | null; goTo: (line: number) => void }) {
  if (!line) return null;
  return (
    <button type="button" class="link" onClick={() => goTo(line)}>
      line {line}
    </button>
  );
}

function Contract({ of }: { of: readonly BrokenContract[] }) {
  return (
    <div class="contract" role="status">
      <p class="tone-warn">
        <Mark name="warning" /> {plural(of.length, "trigger")} could never fire again with this output:
      </p>
      <ul>
        {of.map((one) => (
          <li key={`${one.trigger} ${one.what}`}>
            <Link to={urls.trigger(one.trigger)}>
              <Name text={one.trigger} />
            </Link>{" "}
            {visible(one.what)} <span class="dim">{visible(one.why)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

function SaveDialog({
  name,
  row,
  source,
  base,
  next,
  check,
  onClose,
  onSaved,
}: {
  name: string;
  row: FunctionDetail | null;
  source: string;
  base: number;
  next: number;
  check: Check | null;
  onClose: () => void;
  onSaved: (saved: FunctionDetail) => void;
}) {
  const [activate, setActivate] = useState(true);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Problem | null>(null);
  const functions = check?.dependents.filter((one) => one.kind === "function").length ?? 0;
  const triggers = check?.dependents.filter((one) => one.kind === "trigger").length ?? 0;
  const save = async (over = base) => {
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      const saved = await send<SavedFunction>(
        "PUT",
        route("functions", name),
        { source, activate },
        { once: true, ifMatch: over },
      );
      const what = saved.created ? `Saved ${name} v${saved.number}` : `v${saved.number} has this content already`;
      toast({
        text: saved.inactive_reason
          ? `${what}; not active: ${saved.inactive_reason}`
          : `${what}${saved.active === saved.number ? ", active" : ""}`,
        link: {
          to: urls.events({ type: saved.number === 1 ? "function.created" : "function.updated", subject: name }),
          text: "what it starts",
        },
      });
      onSaved(saved);
    } catch (fault) {
      setError(asProblem(fault));
      setBusy(false);
    }
  };
  return (
    <Dialog title={row ? `Save ${name} as v${next}` : `Save ${name}`} wide onClose={onClose}>
      <form
        class="save"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {row && (
          <Diff before={row.source} after={source} language="python" labels={[`v${row.number}`, `v${next}`]} />
        )}
        {(functions > 0 || triggers > 0) && (
          <p>
            {[functions && plural(functions, "function"), triggers && plural(triggers, "trigger")]
              .filter(Boolean)
              .join(" and ")}{" "}
            {functions + triggers === 1 ? "uses" : "use"} it.
          </p>
        )}
        {check && check.contract.length > 0 && <Contract of={check.contract} />}
        {check?.inactive_reason && <p class="tone-warn">It will not be active: {visible(check.inactive_reason)}</p>}
        <label class="field-check">
          <input
            type="checkbox"
            checked={activate}
            onChange={(event) => setActivate(event.currentTarget.checked)}
          />
          <span>Activate at once</span>
        </label>
        {error && <Fault error={error} />}
        <ChangedMeanwhile
          error={error}
          base={base}
          changes={(current) => urls.diff(name, base, current)}
          saveOver={(current) => void save(current)}
        />
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy} needs="author">
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
