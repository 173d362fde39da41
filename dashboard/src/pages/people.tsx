// Users: who may do what.

import { useState } from "preact/hooks";
import type { User, UserList, UserRow } from "../api.gen.ts";
import { asProblem, type Problem, send } from "../api.ts";
import { useData } from "../data.ts";
import { count } from "../format.ts";
import { useKeys } from "../keys.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Button } from "../parts/link.tsx";
import { Ago, Copy, Empty, Fault, Mark, Name, PageHead, Pill } from "../parts/small.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { toast } from "../parts/toast.tsx";
import { go } from "../router.ts";
import { useRows } from "../rows_here.ts";
import { can } from "../session.ts";
import { urls } from "../urls.ts";
import { Labels } from "./functions.tsx";
import { labelsOf, RightFields, type Rights } from "./rights_fields.tsx";

const EXAMPLE = "functory user create ada --role operator";

const COLUMNS: readonly Column<UserRow>[] = [
  {
    id: "name",
    title: "name",
    width: "minmax(18ch, 1.2fr)",
    cell: (row) => (
      <>
        <Mark name="person" tone={row.state === "active" ? "ok" : "off"} /> <Name text={row.name} />{" "}
        {row.state === "disabled" && <Pill tone="hold">disabled</Pill>}
      </>
    ),
  },
  { id: "role", title: "role", width: "10ch", cell: (row) => row.role },
  {
    id: "rights",
    title: "rights beyond it",
    width: "minmax(14ch, 1fr)",
    priority: 3,
    cell: (row) => <Labels of={row.rights} />,
  },
  {
    id: "labels",
    title: "sees",
    width: "minmax(14ch, 1fr)",
    priority: 2,
    cell: (row) => (row.labels === null ? <span class="dim">everything</span> : <Labels of={row.labels} />),
  },
  { id: "logins", title: "logins", width: "7ch", priority: 2, end: true, cell: (row) => count(row.logins) },
  { id: "tokens", title: "tokens", width: "7ch", priority: 2, end: true, cell: (row) => count(row.tokens) },
  {
    id: "last",
    title: "last login",
    width: "var(--when)",
    end: true,
    cell: (row) => (row.last_login_at ? <Ago time={row.last_login_at} /> : <span class="dim">never</span>),
  },
];

export function PeoplePage() {
  const data = useData<UserList>("/users", {}, { every: 15 });
  const list = useRows(data, (found) => found.items, (row) => row.name);
  const [creating, setCreating] = useState(false);
  useKeys("People", [{ keys: "n", label: "New user", run: () => setCreating(true), when: can("admin") }]);
  return (
    <>
      <PageHead
        title="People"
        mark={<Mark name="person" />}
        actions={
          <Button needs="admin" kind="primary" keys="n" onClick={() => setCreating(true)}>
            New user
          </Button>
        }
      />
      <Table
        list={list}
        columns={COLUMNS}
        label="People"
        open={(row) => urls.person(row.name)}
        empty={
          <Empty title="There are no users yet.">
            <p>
              <Copy text={EXAMPLE} what="command">
                <code>{EXAMPLE}</code>
              </Copy>
            </p>
          </Empty>
        }
      />
      {creating && <NewUser close={() => setCreating(false)} />}
    </>
  );
}

function NewUser({ close }: { close: () => void }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [rights, setRights] = useState<Rights>({ role: "viewer", rights: [], labels: null });
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const create = async () => {
    if (busy || !name.trim()) return;
    setBusy(true);
    setProblem(null);
    try {
      const made = await send<User>("POST", "/users", {
        name: name.trim(),
        ...(password ? { password } : {}),
        role: rights.role,
        rights: rights.rights,
        labels: labelsOf(rights),
      });
      setPassword("");
      toast({ text: `${made.name} may log in now` });
      close();
      go(urls.person(made.name));
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title="New user" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <label class="field">
          <span>Name</span>
          <input value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Password; empty for a user of an identity provider</span>
          <input
            type="password"
            autocomplete="new-password"
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        <RightFields value={rights} onChange={setRights} />
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={close}>Cancel</Button>
          <Button kind="primary" type="submit" busy={busy} disabled={!name.trim()}>
            Create
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
