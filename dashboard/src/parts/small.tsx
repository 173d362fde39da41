// The small parts: marks, pills, times, names, copy buttons, empty and error states, tabs.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { asProblem, online, type Problem } from "../api.ts";
import { useWaiting } from "../arriving.ts";
import { now } from "../clock.ts";
import type { Loaded } from "../data.ts";
import { instant, nameText, timeMode, visible, when } from "../format.ts";
import type { Binding } from "../keys.ts";
import { path, place, setQuery } from "../router.ts";
import { isRedacted, type Text } from "../rows.ts";
import { roleFor } from "../session.ts";
import { shortId } from "../short_ids.ts";
import { type Href, withQuery } from "../urls.ts";
import { Button, Link } from "./link.tsx";
import { lookOf, MARKS, type MarkName } from "./marks.ts";
import { toast } from "./toast.tsx";

/** A mark of 16 px. With a label it is a picture for readers, else decoration. */
export function Mark({ name, label, tone }: { name: MarkName; label?: string; tone?: string }) {
  return (
    <svg
      class={`mark mark-${name} ${tone ? `tone-${tone}` : ""}`}
      viewBox="0 0 16 16"
      role={label ? "img" : undefined}
      aria-label={label}
      aria-hidden={label ? undefined : true}
    >
      {MARKS[name].map(([way, d]) => (
        <path key={d} class={way === "f" ? "fill" : "stroke"} d={d} />
      ))}
    </svg>
  );
}

/** A state as mark and word; `bare` leaves the word to readers. */
export function State({ state, bare }: { state: string | null; bare?: boolean }) {
  if (!state) return null;
  const { mark, tone, text } = lookOf(state);
  return (
    <span class={`state tone-${tone}`} title={bare ? text : undefined}>
      <Mark name={mark} {...(bare ? { label: text } : {})} />
      {!bare && <span>{nameText(text)}</span>}
    </span>
  );
}

/** A small label. */
export function Pill({ children, tone, title }: { children: ComponentChildren; tone?: string; title?: string }) {
  return (
    <span class={`pill ${tone ? `tone-${tone}` : ""}`} title={title}>
      {children}
    </span>
  );
}

/** A name from outside: hidden characters are shown, long ones are cut, and it never changes the direction around. */
export function Name({ text, mono }: { text: string | null | undefined; mono?: boolean }) {
  return (
    <bdi class={mono ? "mono" : undefined} title={text && text.length > 40 ? visible(text) : undefined}>
      {nameText(text)}
    </bdi>
  );
}

/** A text that may be redacted. */
export function PayloadText({ text, empty = "" }: { text: Text | null | undefined; empty?: string }) {
  if (isRedacted(text)) return <RedactedChip needs={text.redacted} />;
  return <Name text={text ?? empty} />;
}

/** Replaces a value that the person may not read. */
export function RedactedChip({ needs }: { needs: string }) {
  return (
    <span class="redacted" title={`This needs ${roleFor(needs)}.`}>
      «redacted»
    </span>
  );
}

/** A function with its version. */
export function FunctionName({ name, version }: { name: string; version?: number | null }) {
  return (
    <span class="function-name">
      <Name text={name} />
      {version !== null && version !== undefined && <span class="dim"> v{version}</span>}
    </span>
  );
}

/** A time as the mode of the page shows it, with the instant as title. */
export function Ago({ time }: { time: string | null | undefined }) {
  if (!time) return null;
  const mode = timeMode.value;
  const text = when(time, mode === "relative" ? now.value : 0, mode);
  return (
    <time dateTime={time} title={`${instant(time, false, true)} · ${instant(time, true)}`}>
      {text}
    </time>
  );
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without TLS there is no clipboard: the browser's old way still works on a selection.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "off-screen";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

/** Copies a text and says so. */
export async function copy(text: string, what: string): Promise<void> {
  if (await copyText(text)) toast({ text: `Copied: ${what}` });
  else toast({ text: "The browser refused to copy", tone: "bad" });
}

/** A button that copies. `what` says what is copied; readers hear it before what is seen. */
export function Copy({ text, what, children }: { text: string; what: string; children?: ComponentChildren }) {
  return (
    <button type="button" class="copy" title={`Copy ${what}`} onClick={() => void copy(text, what)}>
      {children !== undefined && typeof children !== "string" && <span class="off-screen">Copy {what} </span>}
      {children ?? (
        <>
          copy<span class="off-screen"> {what}</span>
        </>
      )}
    </button>
  );
}

/** An id in its short form; a click copies the whole. With `to` it is a link with a button beside it that copies. */
export function Id({ id, what = "id", to }: { id: string; what?: string; to?: Href | null }) {
  const short = <span class="mono">{visible(shortId(id))}</span>;
  if (!to) return <Copy text={id} what={what}>{short}</Copy>;
  return (
    <span class="pair">
      <Link to={to}>{short}</Link> <Copy text={id} what={what} />
    </span>
  );
}

export function Kbd({ children }: { children: ComponentChildren }) {
  return <kbd>{children}</kbd>;
}

/** A page or list without rows: says why, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** An error in its place: what, why, what to try, and a retry. */
export function Fault({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = asProblem(error);
  const { trace, pruned_before, technical, id } = problem.members as Readonly<Record<string, unknown>>;
  return (
    <div class="fault" role="alert">
      <Mark name={problem.status === 403 ? "secret" : "warning"} />
      <div>
        <p class="fault-what">{technical ? "this page could not be drawn" : visible(problem.what)}</p>
        {typeof pruned_before === "string" ? (
          <p>It may have been pruned: retention deletes everything that ended before {instant(pruned_before)}.</p>
        ) : (
          problem.why && <p>{visible(problem.why)}</p>
        )}
        {problem.needs && <p>This needs {roleFor(problem.needs)}.</p>}
        {problem.remedy && (
          <p>
            <span class="dim">try:</span> {visible(problem.remedy)}
          </p>
        )}
        {problem.faults.map((fault) => (
          <p key={fault.pointer}>
            <code>{fault.pointer || "/"}</code> {visible(fault.what)}
          </p>
        ))}
        {typeof trace === "string" && <p class="dim">In the server's log: {trace}</p>}
        {typeof technical === "string" && (
          <>
            <p class="dim">
              Id of the fault: <Copy text={`${id} ${path.value}\n${technical}`} what="the report">{String(id)}</Copy>
            </p>
            <details>
              <summary>Details for a report</summary>
              <pre class="fault-technical">{visible(technical)}</pre>
            </details>
          </>
        )}
        {retry && <Button onClick={retry}>Try again</Button>}
      </div>
    </div>
  );
}

/** True after `--late` (120 ms): before that nothing is drawn, so that fast pages do not blink. */
export function useLate(): boolean {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 120);
    return () => clearTimeout(timer);
  }, []);
  return late;
}

/** Stands for a part that is not there yet, and draws nothing. What follows it in the page waits for it. */
export function Waits() {
  useWaiting();
  return <span class="waits" hidden />;
}

/** Rows of the final height while data is fetched. */
export function Skeleton({ rows = 8 }: { rows?: number }) {
  const late = useLate();
  useWaiting();
  return (
    <div class={late ? "skeleton" : "skeleton hidden"} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <div key={at} class="skeleton-row" />
      ))}
    </div>
  );
}

/** The states that all data has: loading, error, gone, stale. Draws `children` with the data. */
export function Show<T>({ of, children, rows, retry }: {
  of: Loaded<T> & { reload?: () => void };
  children: (data: T) => ComponentChildren;
  rows?: number;
  retry?: () => void;
}) {
  const again = retry ?? of.reload;
  const notice = of.error && (
    <Fault error={of.error} {...(again ? { retry: again } : {})} />
  );
  if (of.data === null) return notice ? <>{notice}</> : <Skeleton {...(rows ? { rows } : {})} />;
  const gone = of.error?.status === 404;
  return (
    <>
      {gone && <p class="notice">This was deleted meanwhile. What you see is its last state.</p>}
      {!gone && online.value && notice}
      {children(of.data)}
    </>
  );
}

/** Two parts side by side; below each other where there is no room. */
export function Split({ left, right }: { left: ComponentChildren; right: ComponentChildren }) {
  return (
    <div class={right ? "split" : "split one"}>
      <div class="split-left">{left}</div>
      {right && <div class="split-right">{right}</div>}
    </div>
  );
}

export interface Tab {
  readonly id: string;
  readonly title: string;
  readonly count?: number | null;
}

/** Tabs whose choice is in the address (`?tab=`). The first one is the default. */
export function Tabs({ tabs, current, name = "tab", label }: {
  tabs: readonly Tab[];
  current: string;
  name?: string;
  label: string;
}) {
  const row = useRef<HTMLDivElement>(null);
  const first = tabs[0]?.id;
  useLayoutEffect(() => {
    // On a phone the row is wider than the window. The page itself stays where it is.
    const chosen = row.current?.querySelector("[aria-selected=true]");
    if (!row.current || !chosen) return;
    const [all, one] = [row.current.getBoundingClientRect(), chosen.getBoundingClientRect()];
    row.current.scrollLeft += one.left - all.left - (all.width - one.width) / 2;
  }, [current]);
  const go = (id: string) => setQuery({ [name]: id === first ? null : id });
  return (
    <div
      class="tabs"
      role="tablist"
      aria-label={label}
      ref={row}
      onKeyDown={(event) => {
        const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        if (!by) return;
        const at = tabs.findIndex((tab) => tab.id === current);
        const next = tabs[(at + by + tabs.length) % tabs.length];
        if (next) go(next.id);
        requestAnimationFrame(() => row.current?.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      {tabs.map((tab, at) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          id={`tab-${tab.id}`}
          aria-selected={tab.id === current}
          aria-controls={tab.id === current ? `panel-${tab.id}` : undefined}
          tabIndex={tab.id === current ? 0 : -1}
          onClick={() => go(tab.id)}
          title={`${tab.title} (${at + 1})`}
        >
          {tab.title}
          {tab.count ? <span class="count">{tab.count}</span> : null}
        </button>
      ))}
    </div>
  );
}

/** The panel of the chosen tab. */
export function TabPanel({ id, children }: { id: string; children: ComponentChildren }) {
  return (
    <div role="tabpanel" id={`panel-${id}`} aria-labelledby={`tab-${id}`} class="tab-panel">
      {children}
    </div>
  );
}

/** The chosen tab of the address. */
export function currentTab(tabs: readonly Tab[], name = "tab"): string {
  const wanted = place.value.query.get(name);
  return (tabs.find((tab) => tab.id === wanted) ?? tabs[0])?.id ?? "";
}

/** Keys of the tabs of a page: their numbers, from 1. The first tab is the one without a name in the address. */
export function tabKeys(tabs: readonly Tab[]): readonly Binding[] {
  return tabs.map((one, at) => ({
    keys: String(at + 1),
    label: one.title,
    run: () => setQuery({ tab: at ? one.id : null }),
  }));
}

/** The head of a page: title, state, facts, buttons. It is not drawn while it `waits` for what it says. */
export function PageHead({ title, mark, children, actions, note, waits }: {
  title: ComponentChildren;
  mark?: ComponentChildren;
  children?: ComponentChildren;
  actions?: ComponentChildren;
  note?: ComponentChildren;
  waits?: boolean;
}) {
  return (
    <header class="page-head">
      {waits && <Waits />}
      <div class="page-title">
        {mark}
        <h1>{title}</h1>
        {children && <div class="page-facts">{children}</div>}
        {actions && <div class="page-actions">{actions}</div>}
      </div>
      {note && <div class="page-note">{note}</div>}
    </header>
  );
}

/** Facts as pairs of a name and a value. Those without a value are left out. */
export function Facts({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A card with a heading. */
export function Card({ title, more, children }: {
  title: ComponentChildren;
  more?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      <h2>
        {title}
        {more && <span class="card-more">{more}</span>}
      </h2>
      {children}
    </section>
  );
}

/** The address of this page with some parameters changed: for links that are states of the page. */
export function here(changes: Readonly<Record<string, string | null>>): Href {
  const query: Record<string, string | null> = {};
  for (const [name, value] of place.value.query) query[name] = value;
  return withQuery(path.value, { ...query, ...changes });
}

/** A link that says where it leads, with an arrow. */
export function More({ to, children }: { to: Href; children: ComponentChildren }) {
  return (
    <Link to={to} class="more">
      {children} →
    </Link>
  );
}

/** Says whether an error is only the answer "not found". */
export function isGone(problem: Problem | null): boolean {
  return problem?.status === 404;
}
