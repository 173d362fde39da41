// Secrets: which there are and who uses them. A value is written here and never read.

import { useState } from "preact/hooks";
import type { Secret, SecretSet } from "../api.gen.ts";
import { asProblem, type Problem, route, send } from "../api.ts";
import { useData } from "../data.ts";
import { visible } from "../format.ts";
import { useKeys } from "../keys.ts";
import { ask, Dialog } from "../parts/dialog.tsx";
import { Button, Link } from "../parts/link.tsx";
import { Ago, Copy, Empty, Fault, Mark, Name, PageHead, Pill, Show } from "../parts/small.tsx";
import { toast } from "../parts/toast.tsx";
import { can } from "../session.ts";
import { urlOf } from "../urls.ts";

const EXAMPLE = "functory secret set SHOP_KEY";

export function SecretsPage() {
  const data = useData<readonly Secret[]>("/secrets", {}, { every: 10 });
  const [asked, setAsked] = useState<string | null>(null);
  const mayAuthor = can("author");
  useKeys("Secrets", [{ keys: "n", label: "New secret", run: () => setAsked(""), when: mayAuthor }]);
  const remove = (row: Secret) =>
    ask({
      title: `Delete the secret ${row.name}?`,
      body: row.used_by.length
        ? `Without it these fail: ${row.used_by.map((one) => visible(one.name)).join(", ")}.`
        : "No function or source uses it.",
      verb: "Delete",
      typed: row.name,
      run: async () => {
        await send("DELETE", route("secrets", row.name));
        toast({ text: `${row.name} was deleted` });
        data.reload();
      },
    });
  return (
    <>
      <PageHead
        title="Secrets"
        mark={<Mark name="secret" />}
        note="A value is stored sealed. No page and no answer of the server shows it again."
        actions={
          <Button needs="author" kind="primary" keys="n" onClick={() => setAsked("")}>
            New secret
          </Button>
        }
      />
      <div class="page-body">
        <Show of={data} rows={4}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No secrets yet.">
                <p>Functions and sources use secrets by their names.</p>
                <p>
                  <Copy text={EXAMPLE} what="command">
                    <code>{EXAMPLE}</code>
                  </Copy>
                </p>
              </Empty>
            ) : (
              <ul class="lines wide secrets">
                {rows.map((row) => (
                  <li key={row.name}>
                    <span class="grow">
                      <Mark name="secret" tone={row.version === null ? "bad" : "ok"} />{" "}
                      <Name text={row.name} mono />{" "}
                      {row.version === null && <Pill tone="bad">not set</Pill>}
                      {row.version !== null && <span class="dim">v{row.version}</span>}
                    </span>
                    <span class="secret-users">
                      {row.used_by.length === 0 ? (
                        <span class="dim">not used</span>
                      ) : (
                        row.used_by.map((user) => <User key={`${user.kind}/${user.name}`} of={user} />)
                      )}
                    </span>
                    <span class="dim">
                      {row.updated_at && (
                        <>
                          set <Ago time={row.updated_at} />
                        </>
                      )}
                    </span>
                    <span class="row-buttons">
                      <Button
                        needs="author"
                        label={`${row.version === null ? "Set" : "Set new value"}: ${row.name}`}
                        onClick={() => setAsked(row.name)}
                      >
                        {row.version === null ? "Set" : "Set new value"}
                      </Button>
                      <Button
                        needs="author"
                        kind="plain"
                        label={`Delete ${row.name}`}
                        disabled={row.version === null}
                        why="It is not set."
                        onClick={() => remove(row)}
                      >
                        Delete
                      </Button>
                    </span>
                  </li>
                ))}
              </ul>
            )
          }
        </Show>
      </div>
      {asked !== null && (
        <SetSecret
          name={asked}
          close={() => setAsked(null)}
          done={() => {
            setAsked(null);
            data.reload();
          }}
        />
      )}
    </>
  );
}

function User({ of }: { of: { kind: string; name: string } }) {
  const to = urlOf(of.kind, of.name);
  const text = (
    <>
      {of.kind} <Name text={of.name} />
    </>
  );
  return <span>{to ? <Link to={to}>{text}</Link> : text}</span>;
}

function SetSecret({ name, close, done }: { name: string; close: () => void; done: () => void }) {
  const [typed, setTyped] = useState(name);
  const [value, setValue] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const save = async () => {
    if (busy || !typed.trim() || !value) return;
    setBusy(true);
    setProblem(null);
    try {
      const made = await send<SecretSet>("PUT", route("secrets", typed.trim()), { value });
      setValue("");
      toast({ text: `${made.name} has version ${made.version}` });
      done();
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={name ? `Set a new value of ${name}` : "New secret"} onClose={close}>
      <form
        autocomplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {!name && (
          <label class="field">
            <span>Name</span>
            <input
              class="mono"
              value={typed}
              autocomplete="off"
              placeholder="SHOP_KEY"
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </label>
        )}
        <label class="field">
          <span>Value</span>
          <input
            type="password"
            autocomplete="new-password"
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
        </label>
        {name && <p class="dialog-text dim">Running executions keep the value that they started with.</p>}
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy} disabled={!typed.trim() || !value}>
            {name ? "Set" : "Save"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
