// The audit log: who did what to what, from where, with the hashes before and after.

import type { AuditRow } from "../api.gen.ts";
import { instant, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { useFreshList } from "../lists.ts";
import { chosenFilters, clearFilters, type Filter, FilterBar, SINCE } from "../parts/filter_bar.tsx";
import { Json } from "../parts/json.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Copy, Empty, Facts, Mark, More, Name, PageHead, Pill, Split } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { place, setQuery } from "../router.ts";
import { type Href, urlOf, urls } from "../urls.ts";

const NOUNS = [
  "function",
  "trigger",
  "source",
  "execution",
  "event",
  "grant",
  "secret",
  "state",
  "switch",
  "user",
  "token",
  "login",
  "batch",
  "backtest",
  "budget",
  "firing",
  "environment",
  "db",
];

const FILTERS: readonly Filter[] = [
  { kind: "text", name: "subject", label: "subject" },
  { kind: "text", name: "author", label: "author" },
  {
    kind: "choice",
    name: "action",
    label: "action",
    several: true,
    choices: NOUNS.map((noun) => ({ value: `${noun}.*`, label: noun })),
  },
  { kind: "choice", name: "since", label: "since", choices: SINCE },
  { kind: "switch", name: "refused", label: "refused" },
];

const short = (hash: string | null) => (hash ? `#${hash.slice(0, 6)}` : "");

const COLUMNS: readonly Column<AuditRow>[] = [
  { id: "time", title: "when", width: "var(--when)", cell: (row) => <Ago time={row.time} /> },
  {
    id: "author",
    title: "author",
    width: "minmax(10ch, .6fr)",
    priority: 2,
    cell: (row) => <Name text={row.author || "nobody"} />,
  },
  {
    id: "action",
    title: "action",
    width: "minmax(16ch, .8fr)",
    cell: (row) => (
      <>
        <span class={row.refused ? "tone-bad" : undefined}>{row.action}</span>
        {row.refused && (
          <>
            {" "}
            <Pill tone="bad">refused{row.count > 1 ? ` ×${row.count}` : ""}</Pill>
          </>
        )}
      </>
    ),
  },
  {
    id: "subject",
    title: "subject",
    width: "minmax(12ch, 1fr)",
    cell: (row) => <Name text={row.subject} />,
  },
  {
    id: "origin",
    title: "from",
    width: "minmax(12ch, .8fr)",
    priority: 3,
    cell: (row) => (
      <span class="dim">
        <Name text={row.origin} />
      </span>
    ),
  },
  {
    id: "hash",
    title: "content",
    width: "18ch",
    priority: 3,
    cell: (row) =>
      (row.before_sha256 || row.after_sha256) && (
        <span class="mono dim">
          {short(row.before_sha256) || "–"} → {short(row.after_sha256) || "–"}
        </span>
      ),
  },
];

export function AuditPage() {
  const query = chosenFilters(FILTERS);
  const list = useFreshList<AuditRow>({ path: "/audit", query, key: (row) => row.id });
  const at = place.value.query.get("at");
  const index = at === null ? undefined : list.index.value.get(at);
  const row = index === undefined ? null : (list.rows.value[index] ?? null);
  useKeys("Audit", [
    { keys: "Escape", label: "Close the part beside", run: () => setQuery({ at: null }), when: at !== null },
  ]);
  return (
    <>
      <PageHead title="Audit" mark={<Mark name="audit" />} />
      <FilterBar filters={FILTERS} saved="audit" />
      <Split
        left={
          <Table
            list={list}
            columns={COLUMNS}
            label="Audit"
            open={(one) => urls.audit({ ...chosen(), at: one.id })}
            beside={(one) => setQuery({ at: one.id })}
            besideOpen={at !== null}
            at={at}
            empty={
              Object.keys(query).length ? (
                <Empty title="Nothing matches the filters.">
                  <Button onClick={() => clearFilters(FILTERS)}>Remove the filters</Button>
                </Empty>
              ) : (
                <Empty title="Nobody has done anything yet." />
              )
            }
          />
        }
        right={row && <Beside of={row} />}
      />
    </>
  );
}

function chosen(): Record<string, string[]> {
  const query: Record<string, string[]> = {};
  for (const [name, value] of place.value.query) (query[name] ??= []).push(value);
  return query;
}

function subjectPage(row: AuditRow): Href | null {
  const noun = row.action.split(".")[0] ?? "";
  const [owner, ...rest] = row.subject.split("/");
  // A source is KIND/NAME, a token USER/NAME, a value FUNCTION/KEY.
  if (noun === "source" && owner) return urlOf(owner, rest.join("/"));
  if (noun === "state" && owner) return urls.function(owner);
  if (noun === "grant") return urls.function(row.subject);
  if (noun === "secret") return urls.secrets();
  if (["login", "user", "token"].includes(noun)) return owner && owner !== "owner" ? urls.person(owner) : null;
  if (noun === "firing") return urls.trigger(row.subject);
  if (noun === "budget") return urls.tree(row.subject);
  if (noun === "batch") return urls.batch(row.subject);
  return urlOf(noun, row.subject);
}

/** The difference that the action made, for functions: their versions are kept. */
function difference(row: AuditRow): Href | null {
  const version = Number(row.data?.["version"] ?? row.data?.["number"]);
  if (!row.action.startsWith("function.") || !(version > 1)) return null;
  const before = Number(row.data?.["previous"] ?? version - 1);
  return before > 0 && before !== version ? urls.diff(row.subject, before, version) : null;
}

function Beside({ of }: { of: AuditRow }) {
  const page = subjectPage(of);
  const diff = difference(of);
  return (
    <div class="beside">
      <h2>
        {of.action} <Name text={of.subject} />
      </h2>
      <Facts
        of={[
          ["When", instant(of.time, false, true)],
          ["Author", <Link to={urls.audit({ author: of.author })}><Name text={of.author || "nobody"} /></Link>],
          ["From", of.origin && <Name text={of.origin} />],
          ["Refused", of.refused && plural(of.count, "attempt")],
          ["Subject", page ? <Link to={page}><Name text={of.subject} /></Link> : <Name text={of.subject} />],
          ["Before", of.before_sha256 && <Hash of={of.before_sha256} />],
          ["After", of.after_sha256 && <Hash of={of.after_sha256} />],
        ]}
      />
      {diff && (
        <p>
          <More to={diff}>what changed</More>
        </p>
      )}
      <p>
        <More to={urls.audit({ subject: of.subject })}>all about this subject</More>
      </p>
      {of.data && Object.keys(of.data).length > 0 && <Json value={of.data} root="data" label="Data of the action" />}
    </div>
  );
}

function Hash({ of }: { of: string }) {
  return (
    <Copy text={of} what="hash">
      <span class="mono">{of.slice(0, 16)}…</span>
    </Copy>
  );
}
