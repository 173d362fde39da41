// Asks for the password again: dangerous actions need it when the login is older than 15 minutes. The identity provider
// asks its users itself, in another tab.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { askPasswordBy, asProblem, downloadPath, type Problem, send } from "../api.ts";
import { useData } from "../data.ts";
import type { Me } from "../rows.ts";
import { me } from "../session.ts";
import { Dialog } from "./dialog.tsx";
import { Button, TabLink } from "./link.tsx";
import { Fault } from "./small.tsx";

const waiting = signal<((given: boolean) => void) | null>(null);

askPasswordBy(() => {
  waiting.value?.(false);
  return new Promise((resolve) => {
    waiting.value = resolve;
  });
});

function answer(given: boolean): void {
  const resolve = waiting.value;
  waiting.value = null;
  resolve?.(given);
}

export function PasswordAgain() {
  if (!waiting.value) return null;
  return me.value?.has_password ? <Ask /> : <AskProvider />;
}

const WHY = "You gave it more than 15 minutes ago, and this action is a dangerous one.";

function AskProvider() {
  const until = useData<Me>("/me", {}, { every: 2 }).data?.confirmed_until;
  // What it was when the dialog came: the page may know an older one.
  const [before, setBefore] = useState(until);
  useEffect(() => {
    if (before === undefined) setBefore(until);
    else if (until !== before) answer(true);
  }, [until]);
  return (
    <Dialog title="Your password again" onClose={() => answer(false)}>
      <p class="dialog-text">{WHY} Your identity provider asks for it in another tab. Then this page goes on.</p>
      <div class="dialog-actions">
        <Button onClick={() => answer(false)}>Cancel</Button>
        <TabLink to={downloadPath("/login/provider", { again: true })}>Go to the provider</TabLink>
      </div>
    </Dialog>
  );
}

function Ask() {
  const [password, setPassword] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const confirm = async () => {
    setProblem(null);
    try {
      await send("POST", "/me:confirm", { password });
      answer(true);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Dialog title="Your password again" onClose={() => answer(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (password) void confirm();
        }}
      >
        <p class="dialog-text">{WHY}</p>
        <input type="text" name="username" autocomplete="username" value={me.value?.name} hidden readOnly />
        <label class="field">
          <span>Password</span>
          <input
            type="password"
            autocomplete="current-password"
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        {problem && <Fault error={problem} />}
        <div class="dialog-actions">
          <Button onClick={() => answer(false)}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!password}>
            Go on
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
