// A user: rights, tokens, open logins, password.

import { useState } from "preact/hooks";
import type { LoginList, NewToken, TokenList, User } from "../api.gen.ts";
import { action, asProblem, type Problem, route, send } from "../api.ts";
import { type Data, isPending, useData } from "../data.ts";
import { plural } from "../format.ts";
import { useKeys } from "../keys.ts";
import { ask, Dialog } from "../parts/dialog.tsx";
import { Button } from "../parts/link.tsx";
import { Ago, Card, Copy, Facts, Fault, Mark, More, Name, PageHead, Pill, Show, State } from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { go } from "../router.ts";
import { can, me } from "../session.ts";
import { urls } from "../urls.ts";
import { Labels } from "./functions.tsx";
import { labelsOf, RightFields, type Rights, type Role } from "./rights_fields.tsx";

export function PersonPage({ name }: { name: string }) {
  const data = useData<User>(route("users", name), {}, { every: 15 });
  const row = data.data;
  const [dialog, setDialog] = useState<"rights" | "password" | "token" | null>(null);
  const admin = can("admin");
  const close = () => setDialog(null);
  useKeys("Person", [{ keys: "e", label: "Change rights", run: () => setDialog("rights"), when: admin }]);
  const tokens = useData<TokenList>("/tokens", { user: name }, { every: 15 });
  const logins = useData<LoginList>("/logins", { user: name }, { every: 5 });
  return (
    <>
      <PageHead
        title={<Name text={name} />}
        mark={<Mark name="person" />}
        waits={isPending(data)}
        actions={
          row && (
            <>
              <Button needs="admin" keys="e" onClick={() => setDialog("rights")}>
                Change rights
              </Button>
              <Button needs="admin" onClick={() => setDialog("password")}>
                New password
              </Button>
              <Button needs="admin" onClick={() => askState(row, data)}>
                {row.state === "active" ? "Disable" : "Enable"}
              </Button>
              <Button needs="admin" kind="plain" onClick={() => askDelete(row)}>
                Delete
              </Button>
            </>
          )
        }
      >
        {row && (
          <>
            <State state={row.state} />
            <Pill>{row.role}</Pill>
          </>
        )}
      </PageHead>
      <div class="page-body">
        <Show of={data}>
          {(user) => (
            <div class="stack">
              <div class="two-columns">
                <Card title="Rights">
                  <Facts
                    of={[
                      ["Role", user.role],
                      ["Beyond it", user.rights.length ? <Labels of={user.rights} /> : "nothing"],
                      ["Sees", user.labels === null ? "everything" : <Labels of={user.labels} />],
                      ["Password", user.password_at ? <>set <Ago time={user.password_at} /></> : "none"],
                      ["Last login", user.last_login_at ? <Ago time={user.last_login_at} /> : "never"],
                      ["Created", <Ago time={user.created_at} />],
                    ]}
                  />
                  <p class="card-end">
                    <More to={urls.audit({ author: user.name })}>what {user.name} did</More>
                  </p>
                </Card>
                <Logins of={logins} name={user.name} />
              </div>
              <Tokens of={tokens} create={() => setDialog("token")} />
            </div>
          )}
        </Show>
      </div>
      {row && dialog === "rights" && <ChangeRights of={row} data={data} close={close} />}
      {row && dialog === "password" && <SetPassword of={row} close={close} />}
      {row && dialog === "token" && (
        <MakeToken
          of={row}
          close={() => {
            close();
            tokens.reload();
          }}
        />
      )}
    </>
  );
}

function Logins({ of, name }: { of: Data<LoginList>; name: string }) {
  const end = async (ids: readonly string[]) => {
    try {
      for (const id of ids) await send("DELETE", route("logins", id));
      toast({ text: ids.length === 1 ? "The login has ended" : `${plural(ids.length, "login")} have ended` });
    } catch (error) {
      toastError(error);
    }
    of.reload();
  };
  const others = (list: LoginList) => list.items.filter((one) => !one.current).map((one) => one.id);
  return (
    <Card title="Open logins">
      <Show of={of} rows={2}>
        {(list) => (
          <>
            {list.items.length === 0 && <p class="dim">{name} is not logged in.</p>}
            <ul class="lines wide">
              {list.items.map((one) => (
                <li key={one.id}>
                  <span class="grow">
                    <Name text={browser(one.agent)} /> <span class="dim">{one.address}</span>
                  </span>
                  <span class="dim">
                    seen <Ago time={one.seen_at} />
                  </span>
                  {one.current ? (
                    <Pill>this one</Pill>
                  ) : (
                    <Button needs="admin" onClick={() => void end([one.id])}>
                      End
                    </Button>
                  )}
                </li>
              ))}
            </ul>
            {others(list).length > 1 && (
              <Button needs="admin" onClick={() => void end(others(list))}>
                End all
              </Button>
            )}
          </>
        )}
      </Show>
    </Card>
  );
}

/** The browser and system of a user agent; the whole text when it looks otherwise. */
export function browser(agent: string): string {
  const product = [...agent.matchAll(/(Firefox|Edg|OPR|Chrome|Version)\/(\d+)/g)].at(-1);
  const system = /\(([^;)]+)/.exec(agent)?.[1];
  if (!product) return agent;
  const names: Readonly<Record<string, string>> = { Edg: "Edge", OPR: "Opera", Version: "Safari" };
  const name = names[product[1] as string] ?? product[1];
  return `${name} ${product[2]}${system ? `, ${system}` : ""}`;
}

function Tokens({ of, create }: { of: Data<TokenList>; create: () => void }) {
  const revoke = (id: string, name: string) =>
    ask({
      title: `Revoke the token ${name}?`,
      body: "The next request with it is refused.",
      verb: "Revoke",
      danger: true,
      run: async () => {
        await send("DELETE", route("tokens", id));
        of.reload();
        toast({ text: `${name} was revoked` });
      },
    });
  return (
    <Card
      title="Tokens"
      more={
        <Button needs="admin" onClick={create}>
          New token
        </Button>
      }
    >
      <Show of={of} rows={2}>
        {(list) => (
          <>
            {list.items.length === 0 && <p class="dim">No tokens. Programs log in with them.</p>}
            <ul class="lines wide">
              {list.items.map((one) => (
                <li key={one.id}>
                  <span class="grow">
                    <Mark name="secret" /> <Name text={one.name} /> <span class="mono dim">{one.prefix}…</span>
                  </span>
                  <Pill>{one.role}</Pill>
                  <Labels of={one.rights} />
                  {one.labels !== null && <Labels of={one.labels} />}
                  <span class="dim">
                    {one.last_used_at ? (
                      <>
                        used <Ago time={one.last_used_at} />
                      </>
                    ) : (
                      "never used"
                    )}{" "}
                    · ends <Ago time={one.expires_at} />
                  </span>
                  <Button needs="admin" label={`Revoke ${one.name}`} onClick={() => revoke(one.id, one.name)}>
                    Revoke
                  </Button>
                </li>
              ))}
            </ul>
          </>
        )}
      </Show>
    </Card>
  );
}

const asRights = (user: User): Rights => ({
  role: user.role as Role,
  rights: user.rights,
  labels: user.labels === null ? null : user.labels.join(", "),
});

function ChangeRights({ of, data, close }: { of: User; data: Data<User>; close: () => void }) {
  const [rights, setRights] = useState(() => asRights(of));
  const save = async () => {
    data.put(
      await send<User>("PATCH", route("users", of.name), {
        role: rights.role,
        rights: rights.rights,
        labels: labelsOf(rights),
      }),
    );
    toast({ text: `The rights of ${of.name} hold from the next request on` });
    close();
  };
  return (
    <FormDialog title={`Rights of ${of.name}`} verb="Save" run={save} close={close}>
      <RightFields value={rights} onChange={setRights} />
    </FormDialog>
  );
}

function SetPassword({ of, close }: { of: User; close: () => void }) {
  const [password, setPassword] = useState("");
  const save = async () => {
    await send("POST", action("password", "users", of.name), { password });
    setPassword("");
    toast({ text: `${of.name} has a new password; open logins have ended` });
    close();
  };
  return (
    <FormDialog title={`New password of ${of.name}`} verb="Set" run={save} close={close} ready={password !== ""}>
      <label class="field">
        <span>New password</span>
        <input
          type="password"
          autocomplete="new-password"
          value={password}
          onInput={(event) => setPassword(event.currentTarget.value)}
        />
      </label>
    </FormDialog>
  );
}

const DAYS = [7, 30, 90, 365];

function MakeToken({ of, close }: { of: User; close: () => void }) {
  const [name, setName] = useState("");
  const [days, setDays] = useState(90);
  const [rights, setRights] = useState<Rights>(() => ({ ...asRights(of), rights: [] }));
  const [made, setMade] = useState<NewToken | null>(null);
  if (made)
    return (
      <Dialog title={`The token ${made.name}`} onClose={close}>
        <p class="dialog-text">Copy it now. It is shown this once.</p>
        <p class="token">
          <code>{made.token}</code>
        </p>
        <div class="dialog-actions">
          <span class="button">
            <Copy text={made.token} what="token">
              Copy
            </Copy>
          </span>
          <Button kind="primary" onClick={close}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  const create = async () => {
    setMade(
      await send<NewToken>("POST", "/tokens", {
        name: name.trim(),
        user: of.name,
        role: rights.role,
        rights: rights.rights,
        labels: labelsOf(rights),
        days,
      }),
    );
  };
  return (
    <FormDialog title={`New token of ${of.name}`} verb="Create" run={create} close={close} ready={name.trim() !== ""}>
      <label class="field">
        <span>Name</span>
        <input
          value={name}
          autocomplete="off"
          placeholder="deploy"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>It ends after</span>
        <select value={String(days)} onChange={(event) => setDays(Number(event.currentTarget.value))}>
          {DAYS.map((one) => (
            <option key={one} value={String(one)}>
              {one} days
            </option>
          ))}
        </select>
      </label>
      <RightFields value={rights} onChange={setRights} />
    </FormDialog>
  );
}

/** A form in a dialog that stays open with its error. */
function FormDialog({ title, verb, run, close, ready = true, children }: {
  title: string;
  verb: string;
  run: () => Promise<void>;
  close: () => void;
  ready?: boolean;
  children: preact.ComponentChildren;
}) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    if (busy || !ready) return;
    setBusy(true);
    setProblem(null);
    try {
      await run();
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  return (
    <Dialog title={title} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {children}
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy} disabled={!ready}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

function askState(row: User, data: Data<User>): void {
  const disable = row.state === "active";
  ask({
    title: disable ? `Disable ${row.name}?` : `Enable ${row.name}?`,
    body: disable ? "Open logins end, and tokens stop working." : "It may log in again.",
    verb: disable ? "Disable" : "Enable",
    danger: disable,
    run: async () => {
      data.put(await send<User>("PATCH", route("users", row.name), { state: disable ? "disabled" : "active" }));
      toast({ text: disable ? `${row.name} is disabled` : `${row.name} may log in again` });
    },
  });
}

function askDelete(row: User): void {
  ask({
    title: `Delete ${row.name}?`,
    body: `Its tokens and logins go too${row.name === me.value?.name ? ", this one included" : ""}.`,
    verb: "Delete",
    typed: row.name,
    run: async () => {
      await send("DELETE", route("users", row.name));
      toast({ text: `${row.name} was deleted` });
      go(urls.people());
    },
  });
}
