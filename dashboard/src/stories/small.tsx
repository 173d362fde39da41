// Stories of the small parts, of links, sparks, messages and dialogs.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Problem } from "../api.ts";
import type { Loaded } from "../data.ts";
import { visible } from "../format.ts";
import { ask, Dialog } from "../parts/dialog.tsx";
import { Button, Download, Link, LinkButton, OutsideLink, TabLink } from "../parts/link.tsx";
import { LongText } from "../parts/long_text.tsx";
import { MARKS, type MarkName, STATES } from "../parts/marks.ts";
import {
  Ago, Card, Copy, Empty, Facts, Fault, FunctionName, Id, Kbd, Mark, More, Name, PageHead, PayloadText, Pill,
  RedactedChip, Show, Skeleton, Split, State, type Tab, TabPanel, Tabs,
} from "../parts/small.tsx";
import { minuteLabel, Spark } from "../parts/spark.tsx";
import { announce, toast, toastError } from "../parts/toast.tsx";
import { urls } from "../urls.ts";
import type { Stories } from "./stories.ts";
import { at, HOSTILE, ID, LARGEST, LINES, LONG_WORD, PROSE, RIGHT_TO_LEFT, SCRIPT } from "./texts.ts";

const REDACTED = { redacted: "payload:read" } as const;
const TONES = ["ok", "run", "bad", "warn", "hold", "off"] as const;
const everyText = (draw: (text: string) => ComponentChildren) => () => (
  <Facts of={Object.entries(HOSTILE).map(([kind, text]) => [kind, draw(text)] as const)} />
);

export const REFUSED = new Problem(403, "it may not be shown", "the caller has the role viewer", "ask an admin", [], {
  needs: "payload:read",
});
export const BROKEN = new Problem(500, "the server failed", "a fault of the server", "try again later", [], {
  trace: "4bf92f3577b34da6",
});
const INVALID = new Problem(422, SCRIPT, LONG_WORD, RIGHT_TO_LEFT, [
  { pointer: "/input/amount", what: "-1 is less than the minimum of 0" },
  { pointer: `/${LONG_WORD}`, what: SCRIPT },
]);
const PRUNED = new Problem(404, "the execution was not found", "", "", [], { pruned_before: at(0) });

const loaded = (data: string | null, error: Problem | null = null): Loaded<string> => ({
  data, error, loading: false, at: 0,
});
const shown = (of: Loaded<string>) => () => <Show of={of} retry={() => {}}>{(text) => <p>{text}</p>}</Show>;

function Tabbed({ tabs, name, label }: { tabs: readonly Tab[]; name: string; label: string }) {
  const current = tabs[0]?.id ?? "";
  return (
    <>
      <Tabs tabs={tabs} current={current} name={name} label={label} />
      <TabPanel id={current}>What the tab shows.</TabPanel>
    </>
  );
}

function Opens({ wide, text }: { wide?: boolean; text: string }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button onClick={() => setOpen(true)}>Open</Button>
      {open && (
        <Dialog title={text.slice(0, 80)} onClose={() => setOpen(false)} {...(wide ? { wide } : {})}>
          <p class="dialog-text">{text}</p>
          <div class="dialog-actions">
            <Button onClick={() => setOpen(false)}>Close</Button>
          </div>
        </Dialog>
      )}
    </>
  );
}

const wave = (points: number) => Array.from({ length: points }, (_, n) => Math.round(50 + 50 * Math.sin(n / 5)));

export const SMALL: Readonly<Record<string, Stories>> = {
  Name: {
    full: () => <Name text="parse_invoice" />,
    mono: () => <Name text="parse_invoice" mono />,
    empty: () => <p>“<Name text={null} />”</p>,
    hostile: everyText((text) => <Name text={text} />),
  },
  FunctionName: {
    full: () => <FunctionName name="parse_invoice" version={47} />,
    "without a version": () => <FunctionName name="parse_invoice" />,
    hostile: everyText((text) => <FunctionName name={text} version={LARGEST} />),
  },
  PayloadText: {
    full: () => <PayloadText text="order-4711" />,
    empty: () => <PayloadText text={null} empty="nothing" />,
    redacted: () => <PayloadText text={REDACTED} />,
    hostile: everyText((text) => <PayloadText text={text} />),
  },
  RedactedChip: { full: () => <RedactedChip needs="payload:read" /> },
  LongText: {
    full: () => <LongText of={LINES} />,
    empty: () => <LongText of="" />,
    prose: () => <LongText of={PROSE.slice(0, 500)} prose />,
    redacted: () => <LongText of={REDACTED} />,
    long: () => <LongText of={PROSE} />,
    hostile: everyText((text) => <LongText of={text} />),
  },
  Mark: {
    full: () => (
      <div class="story-row">
        {(Object.keys(MARKS) as MarkName[]).map((name) => (
          <span key={name} title={name}>
            <Mark name={name} label={name} />
          </span>
        ))}
      </div>
    ),
    tones: () => (
      <div class="story-row">
        {TONES.map((tone) => <Mark key={tone} name="trigger" label={tone} tone={tone} />)}
      </div>
    ),
  },
  State: {
    full: () => (
      <div class="story-row">
        {Object.keys(STATES).map((state) => <State key={state} state={state} />)}
      </div>
    ),
    bare: () => (
      <div class="story-row">
        {Object.keys(STATES).map((state) => <State key={state} state={state} bare />)}
      </div>
    ),
    unknown: () => <State state="a_state_of_a_newer_server" />,
    hostile: everyText((text) => <State state={text} />),
  },
  Pill: {
    full: () => (
      <div class="story-row">
        <Pill>plain</Pill>
        {TONES.map((tone) => <Pill key={tone} tone={tone}>{tone}</Pill>)}
      </div>
    ),
    hostile: everyText((text) => <Pill><Name text={text} /></Pill>),
  },
  Ago: {
    past: () => <Ago time={at(0)} />,
    future: () => <Ago time="2999-12-31T23:59:59Z" />,
    empty: () => <p>“<Ago time={null} />”</p>,
    broken: () => <Ago time="no time" />,
  },
  Id: {
    full: () => <Id id={ID} />,
    link: () => <Id id={ID} to={urls.execution(ID)} />,
    hostile: everyText((text) => <Id id={text} />),
  },
  Copy: {
    full: () => <Copy text="https://example.com/" what="URL" />,
    named: () => <Copy text="https://example.com/" what="URL">copy the URL</Copy>,
    hostile: everyText((text) => <Copy text={text} what="text"><Name text={text} /></Copy>),
  },
  Kbd: { full: () => <p><Kbd>Ctrl K</Kbd> <Kbd>?</Kbd> <Kbd>g x</Kbd></p> },
  Button: {
    full: () => (
      <div class="story-row">
        <Button>Plain</Button>
        <Button kind="primary">Save</Button>
        <Button kind="danger">Delete</Button>
        <Button kind="plain">Clear</Button>
        <Button keys="r">Retry</Button>
        <Button kind="primary" keys="R">Replay</Button>
      </div>
    ),
    disabled: () => (
      <div class="story-row">
        <Button disabled why="Nothing is selected.">Plain</Button>
        <Button kind="primary" disabled>Save</Button>
        <Button kind="danger" disabled>Delete</Button>
      </div>
    ),
    busy: () => <Button kind="primary" busy>Save</Button>,
    long: () => <Button>Retry all 1,204 executions of this filter</Button>,
  },
  Link: {
    full: () => <Link to={urls.overview()}>Overview</Link>,
    hostile: everyText((text) => <Link to={urls.function(text)}><Name text={text} /></Link>),
  },
  LinkButton: {
    full: () => (
      <div class="story-row">
        <LinkButton to={urls.newTrigger()}>Plain</LinkButton>
        <LinkButton to={urls.newTrigger()} kind="primary" keys="n">New trigger</LinkButton>
      </div>
    ),
  },
  More: { full: () => <More to={urls.map()}>map</More> },
  Download: { full: () => <Download to="/icon.svg">download</Download> },
  TabLink: {
    full: () => <TabLink to="/api/v1/login/provider">Go to the provider</TabLink>,
  },
  OutsideLink: {
    full: () => <OutsideLink to="https://example.com/">go to example.com</OutsideLink>,
    "not https": () => <p>“<OutsideLink to="javascript:window.attacked=1">never</OutsideLink>”</p>,
  },
  Empty: {
    full: () => (
      <Empty title="No triggers yet.">
        <p>
          <code>functory trigger add</code>
        </p>
      </Empty>
    ),
    hostile: () => <Empty title={LONG_WORD}><p>{RIGHT_TO_LEFT}</p></Empty>,
  },
  Fault: {
    "of the server": () => <Fault error={BROKEN} retry={() => {}} />,
    "no right": () => <Fault error={REFUSED} />,
    pruned: () => <Fault error={PRUNED} />,
    "of the page": () => <Fault error={new TypeError("rows is not iterable")} retry={() => {}} />,
    hostile: () => <Fault error={INVALID} retry={() => {}} />,
  },
  Show: {
    full: shown(loaded("Some data.")),
    broken: shown(loaded(null, BROKEN)),
    "old, then broken": shown(loaded("Old data.", BROKEN)),
    gone: shown(loaded("Old data.", PRUNED)),
    loading: shown(loaded(null)),
  },
  Facts: {
    full: () => <Facts of={[["Author", "ada"], ["Saved", <Ago time={at(0)} />], ["Id", <Id id={ID} />]]} />,
    empty: () => <Facts of={[["Author", null]]} />,
    hostile: everyText(visible),
    "hostile names": () => <Facts of={Object.values(HOSTILE).map((text) => [visible(text), "value"] as const)} />,
  },
  Card: {
    full: () => <Card title="Workers" more={<More to={urls.health()}>health</More>}><p>4 alive</p></Card>,
    hostile: () => (
      <Card title={<Name text={LONG_WORD} />} more={<More to={urls.health()}>health</More>}>
        {SCRIPT}
      </Card>
    ),
  },
  Split: {
    full: () => <Split left={<p>The list.</p>} right={<p>What is open beside it.</p>} />,
    "one part": () => <Split left={<p>The list.</p>} right={null} />,
  },
  Tabs: {
    full: () => (
      <Tabbed
        name="tab-full"
        label="A few tabs"
        tabs={[{ id: "rows", title: "Rows", count: 4711 }, { id: "none", title: "None", count: 0 }]}
      />
    ),
    long: () => (
      <Tabbed
        name="tab-long"
        label="Many tabs"
        tabs={Array.from({ length: 20 }, (_, n) => ({ id: `long-${n}`, title: `Tab ${n}`, count: LARGEST }))}
      />
    ),
  },
  PageHead: {
    full: () => (
      <PageHead
        title={<Name text="parse_invoice" />}
        mark={<Mark name="function" />}
        actions={<Button kind="primary">Run</Button>}
        note="What it is about, in a sentence."
      >
        <State state="active" />
        <span>47 executions</span>
      </PageHead>
    ),
    hostile: () => (
      <PageHead title={<Name text={LONG_WORD} />} mark={<Mark name="function" />} actions={<Button>Run</Button>}>
        <State state="failed" />
        <Name text={RIGHT_TO_LEFT} />
      </PageHead>
    ),
  },
  Spark: {
    full: () => <Spark values={wave(60)} sentence="60 minutes, up and down" labels={minuteLabel(60)} />,
    large: () => <Spark values={wave(60)} sentence="60 minutes, large" labels={minuteLabel(60)} large />,
    bad: () => <Spark values={wave(24)} sentence="24 hours of failures" tone="bad" />,
    gaps: () => <Spark values={[1, null, 4, null, null, 2, 3, null, 9]} sentence="9 hours, some without data" />,
    zero: () => <Spark values={[0, 0, 0, 0]} sentence="4 hours without anything" />,
    "one point": () => <Spark values={[LARGEST]} sentence="one very large number" />,
    empty: () => <Spark values={[]} sentence="no time at all" />,
  },
  Dialog: {
    full: () => <Opens text="3 firings wait." />,
    long: () => <Opens text={PROSE} wide />,
    hostile: () => <Opens text={`${SCRIPT} ${LONG_WORD} ${RIGHT_TO_LEFT}`} />,
  },
  Questions: {
    full: () => (
      <Button
        onClick={() =>
          ask({ title: "Pause it?", body: "3 firings wait.", verb: "Pause", ask: { label: "Reason" }, run: () => {} })
        }
      >
        Ask
      </Button>
    ),
    dangerous: () => (
      <Button
        onClick={() => ask({ title: "Delete it?", body: SCRIPT, verb: "Delete", typed: LONG_WORD, run: () => {} })}
      >
        Ask
      </Button>
    ),
    broken: () => (
      <Button
        onClick={() =>
          ask({ title: "Retry it?", body: LONG_WORD, verb: "Retry", run: () => Promise.reject(INVALID) })
        }
      >
        Ask
      </Button>
    ),
  },
  Toasts: {
    full: () => (
      <Button onClick={() => toast({ text: "Retried", link: { to: urls.execution(ID), text: "the new execution" } })}>
        Say
      </Button>
    ),
    undo: () => <Button onClick={() => toast({ text: "Paused", undo: () => {} })}>Say</Button>,
    broken: () => <Button onClick={() => toastError(BROKEN)}>Say</Button>,
    hostile: () => (
      <div class="story-row">
        {Object.entries(HOSTILE).map(([kind, text]) => (
          <Button key={kind} onClick={() => toast({ text, tone: "bad" })}>{kind}</Button>
        ))}
      </div>
    ),
  },
  Announcer: { full: () => <Button onClick={() => announce("3 new rows")}>Say to readers</Button> },
  Skeleton: { loading: () => <Skeleton rows={4} /> },
};
