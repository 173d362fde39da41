// A source: its state, what it does, its configuration, and its newest events.

import type { Kind, Source } from "../api.gen.ts";
import { action, route, send } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { count, plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { ask } from "../parts/dialog.tsx";
import { Json } from "../parts/json.tsx";
import { Button, Link } from "../parts/link.tsx";
import {
  Ago,
  Card,
  Copy,
  Facts,
  Mark,
  More,
  Name,
  PageHead,
  PayloadText,
  Pill,
  Show,
  State,
} from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { go, place, setQuery } from "../router.ts";
import type { EventRow, Page } from "../rows.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { askBackfill, Backfills, fireNow, NextTimes, TicksCard, YearCard } from "./schedule_times.tsx";
import { EditSource } from "./source_form.tsx";
import { Lag, QUEUES, SCHEDULES, type SourceGroup, WATCHES, WEBHOOKS } from "./sources.tsx";

function SourcePage({ group, name }: { group: SourceGroup; name: string }) {
  const kind = place.value.query.get("kind") ?? group.kind;
  const editing = place.value.query.has("edit");
  const data = useData<Source>(route("sources", kind, name), {}, { every: editing ? 0 : 5 });
  const row = data.data;
  const mayOperate = can("operate");
  const isSchedule = kind === "schedule";
  const pause = () => row && (row.state === "paused" ? void resume(row, data) : askPause(row, data));
  const edit = () => setQuery({ edit: editing ? null : true }, false);
  useKeys("Source", [
    { keys: "p", label: row?.state === "paused" ? "Resume" : "Pause", run: () => pause(), when: mayOperate },
    { keys: "r", label: "Run now", run: () => row && fireNow(row), when: mayOperate && isSchedule },
    { keys: "b", label: "Backfill", run: () => row && askBackfill(row), when: mayOperate && isSchedule },
    { keys: "e", label: "Edit", run: edit, when: can("author") },
  ]);
  return (
    <>
      <PageHead
        title={<Name text={name} />}
        mark={<Mark name={group.mark} />}
        waits={isPending(data)}
        actions={
          row && (
            <>
              <Button needs="operate" keys="p" onClick={() => pause()}>
                {row.state === "paused" ? "Resume" : "Pause"}
              </Button>
              {isSchedule && (
                <>
                  <Button needs="operate" keys="r" onClick={() => fireNow(row)}>
                    Run now
                  </Button>
                  <Button needs="operate" keys="b" onClick={() => askBackfill(row)}>
                    Backfill…
                  </Button>
                </>
              )}
              <Button needs="author" keys="e" onClick={edit}>
                {editing ? "Stop editing" : "Edit"}
              </Button>
              <Button needs="author" kind="plain" onClick={() => askDelete(group, row)}>
                Delete
              </Button>
            </>
          )
        }
      >
        {row && (
          <>
            <State state={row.state} />
            {kind !== group.kind && <Pill>{kind}</Pill>}
            {row.when && (
              <span>
                <Name text={row.when} /> · <Name text={row.timezone} />
              </span>
            )}
          </>
        )}
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(source) => (
            <div class="stack">
              {source.problem && (
                <p class="notice tone-bad" role="alert">
                  <Mark name="warning" /> <Name text={source.problem} />, <Ago time={source.problem_at} />
                </p>
              )}
              {source.state === "paused" && (
                <p class="notice">
                  Paused <Ago time={source.updated_at} /> by <Name text={source.author} />
                  {source.note && (
                    <>
                      : <Name text={source.note} />
                    </>
                  )}
                </p>
              )}
              {editing ? <EditSource of={source} data={data} /> : <About group={group} of={source} />}
            </div>
          )}
        </Show>
      </div>
      <Backfills />
    </>
  );
}

const ABOUT: Readonly<Record<string, string>> = { file: "Path", table: "Table", webhook: "Proof", queue: "Queue" };

function About({ group, of }: { group: SourceGroup; of: Source }) {
  return (
    <div class="two-columns">
      <div class="stack">
        {of.kind === "schedule" && (
          <>
            <NextTimes of={of} />
            <TicksCard name={of.name} />
          </>
        )}
        {of.url && <SendCard of={of} url={of.url} />}
        {of.kind !== "schedule" && <NewestEvents of={of} />}
      </div>
      <div class="stack">
        {of.kind === "schedule" && <YearCard of={of} />}
        <Card title="Facts">
          <Facts
            of={[
              [ABOUT[of.kind] ?? "What", of.about && <Name text={of.about} mono />],
              ["Times", of.when],
              ["Zone", of.timezone],
              [
                "Runs",
                of.function && (
                  <Link to={urls.function(of.function.split("@")[0] ?? "")}>
                    <Name text={of.function} />
                  </Link>
                ),
              ],
              [
                "Trigger",
                of.trigger && (
                  <Link to={urls.trigger(of.trigger)}>
                    <Name text={of.trigger} />
                  </Link>
                ),
              ],
              ["Last event", of.last_event_at && <Ago time={of.last_event_at} />],
              ["Last hour", plural(of.events_last_hour, "event")],
              ["Refused", of.refused ? `${count(of.refused)} since it was made` : null],
              ["Waiting", of.waiting !== null && plural(of.waiting, "message")],
              ["Lag", of.lag_seconds !== null && <Lag of={of} />],
              ["Looked at", of.looked_at && <Ago time={of.looked_at} />],
              ["Missed", of.missed ? `${of.missed} times passed without an event` : null],
              ["Runs in", of.holder && <Name text={of.holder} />],
              ["Lease until", of.lease_until && <Ago time={of.lease_until} />],
              ["Version", of.version],
              ["Changed", <><Ago time={of.updated_at} />{of.author && <> by <Name text={of.author} /></>}</>],
            ]}
          />
        </Card>
        {of.refusals.length > 0 && <Refusals of={of} />}
        <Card title="Configuration">
          <Json value={of.config} root="config" label={`Configuration of the ${group.one}`} />
        </Card>
        {of.cursor !== null && of.cursor !== undefined && (
          <Card title="How far it has read">
            <Json value={of.cursor} root="cursor" label="Cursor" />
          </Card>
        )}
      </div>
    </div>
  );
}

function Refusals({ of }: { of: Source }) {
  return (
    <Card title="Why it refused">
      <ul class="lines wide">
        {of.refusals.map((one) => (
          <li key={one.reason}>
            <span class="grow">{one.what}</span>
            <span class="dim">{plural(one.count, "time")}</span>
            <Ago time={one.last_at} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

const HEADERS: Readonly<Record<string, string>> = {
  github: `-H "x-hub-signature-256: sha256=$SIGNATURE"`,
  stripe: `-H "stripe-signature: t=$TIME,v1=$SIGNATURE"`,
  slack: `-H "x-slack-request-timestamp: $TIME" -H "x-slack-signature: v0=$SIGNATURE"`,
  standard: `-H "webhook-id: $ID" -H "webhook-timestamp: $TIME" -H "webhook-signature: v1,$SIGNATURE"`,
};

function SendCard({ of, url }: { of: Source; url: string }) {
  const auth = (of.config["auth"] ?? {}) as Readonly<Record<string, unknown>>;
  const header = typeof auth["header"] === "string" ? auth["header"] : null;
  const proof =
    auth["type"] === "basic"
      ? `-u "${String(auth["user"])}:$PASSWORD"`
      : auth["type"] === "token"
        ? `-H "${header ?? "authorization"}: ${header ? "" : "Bearer "}$TOKEN"`
        : auth["type"] === "hmac"
          ? `-H "${header ?? "x-signature"}: ${String(auth["prefix"] ?? "")}$SIGNATURE"`
          : HEADERS[String(auth["type"])];
  const command = [`curl -X POST ${url}`, `-H "content-type: application/json"`, proof, `-d '{"id": 1}'`]
    .filter(Boolean)
    .join(" \\\n  ");
  return (
    <Card title="Send to it">
      <p class="pair">
        <code>{url}</code> <Copy text={url} what="address" />
      </p>
      <pre class="code-box" tabIndex={0}>{command}</pre>
      <p class="pair">
        <Copy text={command} what="command">
          Copy command
        </Copy>
      </p>
    </Card>
  );
}

const NEWEST = 8;

/** The newest events of a source, looked for among the newest of its types. */
function NewestEvents({ of }: { of: Source }) {
  const kinds = useData<readonly Kind[]>("/sources/kinds");
  const types = (kinds.data ?? []).find((one) => one.kind === of.kind)?.types ?? null;
  const wanted = types?.includes("*") ? [] : types;
  const source = `/functory/${of.kind}/${of.name}`;
  // The types have an index: events of other types are not looked at.
  const query = { ...(wanted?.length ? { type: wanted } : {}), source };
  const data = useData<Page<EventRow>>(wanted && "/events", { ...query, limit: NEWEST }, { every: 15 });
  return (
    <Card
      title="Newest events"
      more={<More to={urls.events(query)}>all of them</More>}
    >
      <Show of={data} rows={3}>
        {({ items, next }) =>
          items.length === 0 ? (
            <p class="dim">
              {next ? "None of the newest events that were looked at is of it." : "It has written no event yet."}
            </p>
          ) : (
            <ul class="lines wide">
              {items.map((row) => (
                <li key={row.id}>
                  <Mark name="event" />
                  <Link to={urls.event(row.id)} class="grow">
                    <Name text={row.type} /> <PayloadText text={row.subject} />
                  </Link>
                  <span class="dim">
                    {row.fired ? `${row.fired} fired` : ""} {row.suppressed ? `${row.suppressed} stopped` : ""}
                  </span>
                  <Ago time={row.time} />
                </li>
              ))}
            </ul>
          )
        }
      </Show>
    </Card>
  );
}

function askPause(row: Source, data: Data<Source>): void {
  ask({
    title: `Pause ${row.name}?`,
    body: "It makes no events until it is resumed.",
    verb: "Pause",
    ask: { label: "Why", placeholder: "shown to everybody who looks at it" },
    run: async (note) => {
      data.put(await send<Source>("POST", action("pause", "sources", row.kind, row.name), { note }));
      toast({ text: `${row.name} is paused`, undo: () => void resume(row, data) });
    },
  });
}

async function resume(row: Source, data: Data<Source>): Promise<void> {
  try {
    data.put(await send<Source>("POST", action("resume", "sources", row.kind, row.name)));
    toast({ text: `${row.name} makes events again` });
  } catch (error) {
    toastError(error);
  }
}

function askDelete(group: SourceGroup, row: Source): void {
  ask({
    title: `Delete the ${group.one} ${row.name}?`,
    body: `Its events stay.${row.trigger ? ` Its trigger ${row.trigger} is deleted as well.` : ""}`,
    verb: "Delete",
    typed: row.name,
    run: async () => {
      await send("DELETE", route("sources", row.kind, row.name));
      toast({ text: `${row.name} was deleted` });
      go(group.list());
    },
  });
}

export const SchedulePage = ({ name }: { name: string }) => <SourcePage key={name} group={SCHEDULES} name={name} />;
export const WatchPage = ({ name }: { name: string }) => <SourcePage key={name} group={WATCHES} name={name} />;
export const WebhookPage = ({ name }: { name: string }) => <SourcePage key={name} group={WEBHOOKS} name={name} />;
export const QueuePage = ({ name }: { name: string }) => <SourcePage key={name} group={QUEUES} name={name} />;
