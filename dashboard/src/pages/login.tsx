// Login by name and password. One-time links are exchanged before this page is drawn.

import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { asProblem, downloadPath, type Problem } from "../api.ts";
import { useData } from "../data.ts";
import { Button } from "../parts/link.tsx";
import { Fault, Name } from "../parts/small.tsx";
import { loginFailure } from "../login_failures.ts";
import { place, reload } from "../router.ts";
import type { LoginWays } from "../rows.ts";
import { login } from "../session.ts";
import { ownHref, urls } from "../urls.ts";

/** Why a one-time link or a password was refused. */
export const loginFault = signal<Problem | null>(null);

export function LoginPage() {
  const ways = useData<LoginWays>("/login").data;
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const fault = loginFault.value ?? loginFailure(place.value.query.get("failed"));
  const enter = async () => {
    setBusy(true);
    loginFault.value = null;
    try {
      await login(name.trim(), password);
      // The whole application begins anew: nothing of another person stays in memory.
      reload(ownHref(place.value.query.get("next") ?? "") ?? urls.overview());
    } catch (error) {
      loginFault.value = asProblem(error);
      setPassword("");
      setBusy(false);
    }
  };
  // Not autofocus: where the address has put the focus already, Chromium says that it was blocked.
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []);
  if (place.value.query.has("confirmed"))
    return (
      <main class="alone" id="page" tabIndex={-1}>
        <div class="login card">
          <h1>Confirmed</h1>
          <p>The other tab goes on. You can close this one.</p>
        </div>
      </main>
    );
  return (
    <main class="alone" id="page" tabIndex={-1}>
      <form
        class="login card"
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy && name.trim() && password) void enter();
        }}
      >
        <h1>
          <span class="swatch color-accent" aria-hidden="true" /> functory
        </h1>
        <label class="field">
          <span>Name</span>
          <input
            name="name"
            autocomplete="username"
            ref={first}
            spellcheck={false}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>Password</span>
          <input
            name="password"
            type="password"
            autocomplete="current-password"
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        {fault && <Fault error={fault} />}
        <Button kind="primary" type="submit" busy={busy} disabled={!name.trim() || !password}>
          Log in
        </Button>
        {ways?.provider && (
          <Button onClick={() => reload(ownHref(downloadPath("/login/provider")) ?? urls.login())}>
            Log in with <Name text={ways.provider} />
          </Button>
        )}
        {ways?.link && (
          <p class="dim">
            <code>functory dev</code> prints a link that logs you in. <code>functory dashboard link</code> makes
            another one.
          </p>
        )}
        {ways?.advice && !ways.link && (
          <p class="dim">
            There is no admin yet. Make one at the server: <code>{ways.advice}</code>
          </p>
        )}
      </form>
    </main>
  );
}
