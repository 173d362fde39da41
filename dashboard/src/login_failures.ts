// Why a login by the identity provider has failed, in words. The server sends a code and no text.

import { Problem } from "./api.ts";

/** What happened, and what to do. The codes are those of `functory/api/access/login_failures.py`. */
export const LOGIN_FAILURES: Readonly<Record<string, readonly [what: string, remedy: string]>> = {
  another_user: [
    "Your login was not confirmed: it has ended, or the identity provider knows you as another user.",
    "Log in again.",
  ],
  disabled: ["Your user is disabled.", "Ask an admin of this installation."],
  invalid_answer: [
    "The answer of the identity provider is not valid.",
    "Log in again. If that fails too, ask an admin: the server's log has the reason.",
  ],
  last_admin: [
    "You are the last admin, and the identity provider gives you another role now.",
    "Make another admin first, or change your group at the provider.",
  ],
  name_taken: ["Another user has your name already.", "Ask an admin of this installation."],
  no_role: ["You may not use this installation: none of your groups gives a role here.", "Ask an admin of it."],
  no_tls: ["A login needs TLS.", "Open this page by its https:// address."],
  not_asked_again: [
    "The identity provider did not ask for your password again.",
    "Log out here and at the provider, then log in again.",
  ],
  not_begun: ["This login was not begun in this browser, or it took more than ten minutes.", "Log in again."],
  provider_refused: ["The identity provider did not log you in.", "Log in again, or ask who runs the provider."],
  provider_unavailable: ["The identity provider does not answer.", "Log in again in a minute."],
  unavailable: ["The server cannot read its database now.", "Log in again in a minute."],
  wrong_name: [
    "The name that the identity provider has for you cannot be a name here.",
    "Ask an admin to set FUNCTORY_OIDC_NAME_CLAIM to another claim.",
  ],
};

/** The failure of a code that came in the address; null without one. */
export function loginFailure(code: string | null): Problem | null {
  if (code === null) return null;
  const found = Object.hasOwn(LOGIN_FAILURES, code) ? LOGIN_FAILURES[code] : undefined;
  const [what, remedy] = found ?? ["The login by the identity provider has failed.", "Log in again."];
  return new Problem(401, what, "", remedy);
}
