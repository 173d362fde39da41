// One call of a language model: its request, its answer, its tries, and what it cost.

import type { ComponentChildren } from "preact";
import type { Call } from "../api.gen.ts";
import { route } from "../api.ts";
import { isPending, useData } from "../data.ts";
import { count, dollars, duration, plural, visible } from "../format.ts";
import { Json } from "../parts/json.tsx";
import { Link } from "../parts/link.tsx";
import { LongText } from "../parts/long_text.tsx";
import {
  Ago, Card, Facts, Id, Mark, More, Name, PageHead, PayloadText, RedactedChip, Show, State,
} from "../parts/small.tsx";
import { isRedacted } from "../rows.ts";
import { urls } from "../urls.ts";
import { CallCost, CallModel } from "./calls.tsx";

interface ToolCall {
  readonly name: string;
  readonly arguments: unknown;
}

interface Message {
  readonly role: string;
  readonly content: unknown;
  readonly tool_calls?: readonly ToolCall[];
}

export function CallPage({ id }: { id: string }) {
  const data = useData<Call>(route("calls", id), {}, { every: 1, polled: (one) => one.ended_at === null });
  const row = data.data;
  return (
    <>
      <PageHead
        title={row ? <CallModel of={row} /> : "Model call"}
        mark={<Mark name="call" />}
        waits={isPending(data)}
      >
        {row && (
          <>
            <State state={row.state} />
            <CallCost of={row} />
            {row.sent_at && row.ended_at && (
              <span>{duration((Date.parse(row.ended_at) - Date.parse(row.sent_at)) / 1000)}</span>
            )}
            <Ago time={row.created_at} />
          </>
        )}
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(call) => (
            <div class="two-columns">
              <div class="stack">
                <Request of={call} />
                <Answer of={call} />
              </div>
              <div class="stack">
                {call.error && <Problem of={call} />}
                <CallFacts of={call} />
                <Tries of={call} />
              </div>
            </div>
          )}
        </Show>
      </div>
    </>
  );
}

function Request({ of }: { of: Call }) {
  const request = of.request;
  if (request === null)
    return (
      <Card title="Request">
        <p class="dim">Its text is no longer kept: its time in the archive is over.</p>
      </Card>
    );
  if (isRedacted(request))
    return (
      <Card title="Request">
        <RedactedChip needs={request.redacted} />
      </Card>
    );
  const messages = (request["messages"] ?? []) as readonly Message[];
  const texts = (request["texts"] ?? []) as readonly string[];
  const tools = (request["tools"] ?? []) as readonly unknown[];
  return (
    <>
      {messages.map((message, at) => (
        <Card key={at} title={visible(message.role)}>
          <Content of={message.content} />
          <ToolCalls of={message.tool_calls ?? []} />
        </Card>
      ))}
      {texts.map((one, at) => (
        <Card key={at} title={`text ${at + 1}`}>
          <Content of={one} />
        </Card>
      ))}
      {tools.length > 0 && (
        <Card title={plural(tools.length, "tool")}>
          <Json value={tools} label="Tools" />
        </Card>
      )}
      {Boolean(request["schema"]) && (
        <Card title="Schema of the answer">
          <Json value={request["schema"]} label="Schema of the answer" />
        </Card>
      )}
    </>
  );
}

function Answer({ of }: { of: Call }) {
  const response = of.response;
  if (response === null)
    return of.partial === null ? null : (
      <Card title="Answer so far" more={<span class="dim">it streams</span>}>
        <LongText of={of.partial} />
      </Card>
    );
  if (isRedacted(response))
    return (
      <Card title="Answer">
        <RedactedChip needs={response.redacted} />
      </Card>
    );
  const vectors = response["vectors"] as readonly (readonly number[])[] | undefined;
  if (vectors)
    return (
      <Card title="Answer">
        <p>{plural(vectors.length, "embedding")}</p>
      </Card>
    );
  return (
    <Card title="Answer" more={of.finish_reason && <span class="dim">{visible(of.finish_reason)}</span>}>
      {Boolean(response["text"]) && <Content of={response["text"]} />}
      <ToolCalls of={(response["tool_calls"] ?? []) as readonly ToolCall[]} />
      {response["value"] !== undefined && response["value"] !== null && (
        <Json value={response["value"]} label="Value" />
      )}
    </Card>
  );
}

function ToolCalls({ of }: { of: readonly ToolCall[] }) {
  return (
    <>
      {of.map((one, at) => (
        <div key={at}>
          <p>
            uses the tool <Name text={one.name} mono />
          </p>
          <Json value={one.arguments} label={`Arguments of ${visible(one.name)}`} />
        </div>
      ))}
    </>
  );
}

function Content({ of }: { of: unknown }): ComponentChildren {
  if (of === null || of === undefined || of === "") return <p class="dim">no text</p>;
  if (typeof of === "string") return <LongText of={of} />;
  return <Json value={of} label="Content" />;
}

function Problem({ of }: { of: Call }) {
  return (
    <Card title="Error">
      <p class="tone-bad">
        <PayloadText text={of.error?.message} />
      </p>
      {of.state === "unknown" && (
        <p>The answer was lost. It may have cost money, so it is not asked again by itself.</p>
      )}
      {of.error?.limit && of.state === "refused" && <More to={urls.spend()}>what may be spent</More>}
      {of.error?.answer && <LongText of={of.error.answer} />}
    </Card>
  );
}

function CallFacts({ of }: { of: Call }) {
  return (
    <Card title="Facts">
      <Facts
        of={[
          ["Id", <Id id={of.id} />],
          [
            "Model",
            <Link to={urls.model(of.asked)}>
              <Name text={of.asked} />
            </Link>,
          ],
          [
            "Function",
            of.function && (
              <Link to={urls.function(of.function)}>
                <Name text={of.function} />
              </Link>
            ),
          ],
          ["Execution", of.execution_id && <More to={urls.execution(of.execution_id)}>execution</More>],
          ["Calls of its tree", <More to={urls.calls({ root: of.root_id })}>calls</More>],
          ["Agent", of.agent && <Name text={of.agent} />],
          ["User", of.user_name && <Name text={of.user_name} />],
          ["Cost", <CallCost of={of} />],
          ["Reserved", of.reserved > 0 && dollars(of.reserved)],
          ["Tokens asked", count(of.tokens_in)],
          ["In the provider's cache", of.tokens_cached > 0 && count(of.tokens_cached)],
          ["Tokens answered", `${count(of.tokens_out)} of ${count(of.max_tokens)}`],
          ["Counted by", of.estimated && "us: the provider told none"],
          ["Sent", of.sent_at && <Ago time={of.sent_at} />],
          ["Ended", of.ended_at && <Ago time={of.ended_at} />],
          ["Gateway", of.ended_at === null && of.gateway && <Name text={of.gateway} />],
        ]}
      />
    </Card>
  );
}

function Tries({ of }: { of: Call }) {
  return (
    <Card title="Tries">
      {of.tried.length === 0 ? (
        <p class="dim">{of.state === "sent" ? "It was sent and waits for its answer." : "It was not sent."}</p>
      ) : (
        <ul class="lines">
          {of.tried.map((one) => (
            <li key={one.number}>
              <span class="dim">{one.number}</span>
              <Name text={one.model} />
              <span class={one.problem ? "grow tone-bad" : "grow"}>
                {one.status} <PayloadText text={one.problem} />
              </span>
              <span class="dim">
                {duration(one.seconds)} {dollars(one.cost)}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
