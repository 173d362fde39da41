// Asks for the password again: dangerous actions need it when the login is older than 15 minutes.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { askPasswordBy, asProblem, type Problem, send } from "../api.ts";
import { me } from "../session.ts";
import { Dialog } from "./dialog.tsx";
import { Button } from "./link.tsx";
import { Fault } from "./small.tsx";

const waiting = signal<((given: boolean) => void) | null>(null);

askPasswordBy(() => {
  // Users of an identity provider have no password here; they log in again.
  if (!me.value?.has_password) return Promise.resolve(false);
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
  return waiting.value ? <Ask /> : null;
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
        <p class="dialog-text">You gave it more than 15 minutes ago, and this action is a dangerous one.</p>
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
