// One's own settings: look, keys, password, open logins.

import { useState } from "preact/hooks";
import { asProblem, type Problem, route, send } from "../api.ts";
import { useData } from "../data.ts";
import { instant, type TimeMode, timeMode } from "../format.ts";
import { Button } from "../parts/link.tsx";
import { Ago, Card, Facts, Fault, Name, PageHead, Pill, Show } from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { reload } from "../router.ts";
import type { LoginList } from "../rows.ts";
import { letterKeys, logout, me, prefer, setTheme, type Theme, theme } from "../session.ts";
import { store } from "../storage.ts";
import { urls } from "../urls.ts";

const THEMES: readonly Theme[] = ["system", "light", "dark"];
const TIMES: readonly TimeMode[] = ["relative", "local", "utc"];

export function MePage() {
  const row = me.value;
  if (!row) return null;
  const leave = async () => {
    try {
      await logout();
      reload(urls.login());
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <>
      <PageHead title={<Name text={row.name} />} actions={<Button onClick={() => void leave()}>Log out</Button>}>
        <Pill>{row.role}</Pill>
      </PageHead>
      <div class="page-body text stack">
        <Card title="Rights">
          <Facts
            of={[
              ["Rights", row.rights.join(", ")],
              ["Labels", row.labels === null ? "everything" : row.labels.join(", ") || "nothing"],
              ["Login ends", row.login_expires_at && instant(row.login_expires_at)],
              ["Version", row.version],
            ]}
          />
        </Card>
        <Card title="Look">
          <Choice
            label="Colours"
            options={THEMES}
            value={theme.value}
            choose={(value) => setTheme(value)}
          />
          <Choice
            label="Times"
            options={TIMES}
            value={timeMode.value}
            choose={(value) => {
              timeMode.value = value;
              store("times", value);
            }}
          />
          <label class="filter-switch">
            <input
              type="checkbox"
              checked={letterKeys.value}
              onChange={(event) => void prefer({ letter_keys: event.currentTarget.checked }).catch(toastError)}
            />
            Single letters are keys
          </label>
        </Card>
        {row.has_password && <Password />}
        {row.kind === "user" && <Logins />}
      </div>
    </>
  );
}

function Choice<T extends string>({ label, options, value, choose }: {
  label: string;
  options: readonly T[];
  value: T;
  choose: (value: T) => void;
}) {
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      {options.map((one) => (
        <label key={one} class="filter-switch">
          <input type="radio" name={label} checked={one === value} onChange={() => choose(one)} /> {one}
        </label>
      ))}
    </fieldset>
  );
}

function Password() {
  const [old, setOld] = useState("");
  const [fresh, setFresh] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const change = async () => {
    setProblem(null);
    try {
      await send("POST", "/me:password", { password: old, new_password: fresh });
      setOld("");
      setFresh("");
      toast({ text: "The password was changed; other logins have ended" });
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Card title="Password">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (old && fresh) void change();
        }}
      >
        <input type="text" name="username" autocomplete="username" value={me.value?.name} hidden readOnly />
        <label class="field">
          <span>Password until now</span>
          <input
            type="password"
            autocomplete="current-password"
            value={old}
            onInput={(event) => setOld(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>New password</span>
          <input
            type="password"
            autocomplete="new-password"
            value={fresh}
            onInput={(event) => setFresh(event.currentTarget.value)}
          />
        </label>
        {problem && <Fault error={problem} />}
        <Button type="submit" disabled={!old || !fresh}>
          Change
        </Button>
      </form>
    </Card>
  );
}

function Logins() {
  const data = useData<LoginList>("/logins", { user: me.value?.name });
  const end = async (id: string) => {
    try {
      await send("DELETE", route("logins", id));
      data.reload();
      toast({ text: "The login has ended" });
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <Card title="Open logins">
      <Show of={data} rows={2}>
        {(list) => (
          <ul class="lines wide">
            {list.items.map((one) => (
              <li key={one.id}>
                <span class="grow">
                  <Name text={one.agent} /> <span class="dim">{one.address}</span>
                </span>
                <Ago time={one.seen_at} />
                {one.current ? <Pill>this one</Pill> : <Button onClick={() => void end(one.id)}>End</Button>}
              </li>
            ))}
          </ul>
        )}
      </Show>
    </Card>
  );
}
