// Grants that wait for a person: what each would allow, and who asks for it.

import { useState } from "preact/hooks";
import type { Grant, GrantDecision } from "../api.gen.ts";
import { asProblem, type Problem, send } from "../api.ts";
import { type Data, useData } from "../data.ts";
import { useKeys } from "../keys.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Empty, Fault, FunctionName, Mark, More, Name, Show } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { can } from "../session.ts";
import { urls } from "../urls.ts";

/** What a grant lets a function do, for a person who decides about it. */
function meaning(kind: string): { readonly may: string; readonly careful?: string } {
  switch (kind) {
    case "host":
      return { may: "open connections to", careful: "It can send there whatever it reads." };
    case "read":
      return { may: "read files of the worker's machine below" };
    case "write":
      return { may: "create, change and delete files below" };
    case "secret":
      return { may: "read the value of the secret" };
    case "permission":
      return { may: "call the engine with the permission" };
    case "preload":
      return { may: "have a package imported before the sandbox closes:", careful: "Its import runs unconfined." };
    case "subprocess":
      return { may: "start programs", careful: "They have all that the sandbox of the function has." };
    default:
      return { may: `use ${kind}` };
  }
}

type Verb = "allow" | "refuse" | "revoke";

interface Asked {
  readonly verb: Verb;
  readonly grant: Grant;
}

/** Grants: those that wait, those that were refused, those in effect. */
export function Grants({ tab, waiting }: { tab: string; waiting: Data<readonly Grant[]> }) {
  const refused = useData<readonly Grant[]>("/grants:waiting", { refused: true }, { every: 15 });
  const grants = useData<readonly Grant[]>(tab === "effect" ? "/grants" : null, {}, { every: 15 });
  const [asked, setAsked] = useState<Asked | null>(null);
  const first = waiting.data?.[0];
  const decide = can("approve");
  const ask = (verb: Verb, grant: Grant | undefined) => grant && setAsked({ verb, grant });
  useKeys("Grants", [
    { keys: "A", label: "Approve the first", run: () => ask("allow", first), when: decide && tab === "grants" },
    { keys: "D", label: "Refuse the first", run: () => ask("refuse", first), when: decide && tab === "grants" },
  ]);
  const done = () => {
    setAsked(null);
    // What was decided does not wait for the answer of the next request to go: it would be the first one still.
    if (asked && waiting.data) waiting.put(waiting.data.filter((one) => keyOf(one) !== keyOf(asked.grant)));
    for (const one of [waiting, refused, grants]) one.reload();
  };
  return (
    <>
      <p class="notice">
        Functions ask for what they use beyond plain computation. Until it is approved they run without it.
      </p>
      {tab === "grants" && <Waiting of={waiting} ask={ask} />}
      {tab === "refused" && (
        <List of={refused} empty="No grant was refused.">
          {(grant) => <Decide verb="allow" text="Approve after all" onClick={() => ask("allow", grant)} />}
        </List>
      )}
      {tab === "effect" && (
        <List of={grants} empty="No function has a grant." only={(grant) => grant.status !== "pending"}>
          {(grant) =>
            grant.status === "operator" ? (
              <Decide verb="revoke" text="Revoke" onClick={() => ask("revoke", grant)} />
            ) : (
              <span class="dim">by declaration</span>
            )
          }
        </List>
      )}
      {asked && <Decision of={asked} close={() => setAsked(null)} done={done} />}
    </>
  );
}

/** The key of a grant: a version, and what it asks for. */
const keyOf = (grant: Grant) => `${grant.function}${grant.sha256}${grant.kind}${grant.value}`;

function Waiting({ of, ask }: { of: Data<readonly Grant[]>; ask: (verb: Verb, grant: Grant) => void }) {
  return (
    <List of={of} empty="No grant waits for approval.">
      {(grant, at) => (
        <>
          <Decide
            verb="allow"
            text="Approve"
            keys={at === 0 ? "A" : ""}
            onClick={() => ask("allow", grant)}
          />
          <Decide
            verb="refuse"
            text="Refuse"
            keys={at === 0 ? "D" : ""}
            onClick={() => ask("refuse", grant)}
          />
        </>
      )}
    </List>
  );
}

function Decide({ verb, text, keys, onClick }: {
  verb: Verb;
  text: string;
  keys?: string;
  onClick: () => void;
}) {
  return (
    <Button
      needs="approve"
      {...(verb === "allow" ? { kind: "primary" as const } : {})}
      {...(keys ? { keys } : {})}
      onClick={onClick}
    >
      {text}
    </Button>
  );
}

function List({ of, empty, only, children }: {
  of: Data<readonly Grant[]>;
  empty: string;
  only?: (grant: Grant) => boolean;
  children: (grant: Grant, at: number) => preact.ComponentChildren;
}) {
  return (
    <Show of={of} rows={4}>
      {(all) => {
        const grants = only ? all.filter(only) : all;
        if (!grants.length) return <Empty title={empty} />;
        return (
          <ul class="grants">
            {grants.map((grant, at) => (
              <li key={keyOf(grant)} class="card">
                <div class="grow">
                  <p>
                    <Mark name={grant.status === "pending" ? "approval" : "succeeded"} tone="hold" />{" "}
                    <Link to={urls.function(grant.function)}>
                      <FunctionName name={grant.function} version={grant.version} />
                    </Link>{" "}
                    may <Meaning of={grant} />
                  </p>
                  <p class="dim">
                    by <Name text={grant.author} /> <Ago time={grant.created_at} />
                    {grant.reason && (
                      <>
                        : <Name text={grant.reason} />
                      </>
                    )}
                    {grant.version && (
                      <>
                        {" "}
                        · <More to={urls.version(grant.function, grant.version)}>code</More>
                        {grant.version > 1 && (
                          <>
                            {" "}
                            <More to={urls.diff(grant.function, grant.version - 1, grant.version)}>what changed</More>
                          </>
                        )}
                      </>
                    )}
                  </p>
                </div>
                <div class="row-buttons">{children(grant, at)}</div>
              </li>
            ))}
          </ul>
        );
      }}
    </Show>
  );
}

function Meaning({ of }: { of: Grant }) {
  return (
    <>
      {meaning(of.kind).may}{" "}
      {of.value && (
        <strong>
          <Name text={of.value} mono />
        </strong>
      )}
    </>
  );
}

const WORDS: Readonly<Record<Verb, { title: string; verb: string; done: string }>> = {
  allow: { title: "Approve", verb: "Approve", done: "It was approved" },
  refuse: { title: "Refuse", verb: "Refuse", done: "It was refused" },
  revoke: { title: "Revoke", verb: "Revoke", done: "It was revoked" },
};

function Decision({ of, close, done }: { of: Asked; close: () => void; done: () => void }) {
  const { grant, verb } = of;
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const { careful } = meaning(grant.kind);
  const decide = async () => {
    if (busy || !reason.trim()) return;
    setBusy(true);
    setProblem(null);
    try {
      const path = `/grants:${verb}`;
      await send<GrantDecision>("POST", path, {
        function: grant.function,
        version: grant.version,
        kind: grant.kind,
        value: grant.value,
        reason: reason.trim(),
      });
      toast({ text: WORDS[verb].done, link: { to: urls.function(grant.function), text: grant.function } });
      done();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`${WORDS[verb].title}: ${grant.kind} ${grant.value}`} onClose={close}>
      <form onSubmit={(event) => event.preventDefault()}>
        <div class="dialog-text stack">
          <p>
            <FunctionName name={grant.function} version={grant.version} /> may <Meaning of={grant} />.
          </p>
          {verb === "allow" && (
            <>
              {careful && <p class="tone-warn">{careful}</p>}
              <p class="dim">The approval is for exactly this code. A changed version asks again.</p>
            </>
          )}
          {verb === "revoke" && <p class="dim">Running executions keep what they started with.</p>}
        </div>
        <label class="field">
          <span>Reason, kept in the audit log</span>
          <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={close}>Cancel</Button>
          <Button
            kind={verb === "allow" ? "primary" : "danger"}
            disabled={!reason.trim()}
            why="Give a reason first."
            busy={busy}
            onClick={() => void decide()}
          >
            {WORDS[verb].verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
