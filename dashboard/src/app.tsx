// The entry: who is here, then the frame, then the stream.

import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/parts.css";
import "./styles/now.css";
import "./styles/build.css";
import "./styles/guard.css";
import "./styles/forced.css";

import { effect } from "@preact/signals";
import { render } from "preact";
import { asProblem, loggedOut } from "./api.ts";
import { startClock } from "./clock.ts";
import { letters, startKeys } from "./keys.ts";
import { loginFault } from "./pages/login.tsx";
import { Fault } from "./parts/small.tsx";
import { path, place, reload, startRouter, takeLoginCode } from "./router.ts";
import { prepare } from "./routes.ts";
import { applyTheme, exchange, letterKeys, loadMe } from "./session.ts";
import { Shell } from "./shell/shell.tsx";
import { startStream } from "./stream.ts";
import { ownHref, urls } from "./urls.ts";

async function start(): Promise<void> {
  applyTheme();
  startRouter();
  startKeys();
  startClock();
  effect(() => {
    letters.value = letterKeys.value;
  });
  const root = document.getElementById("app") as HTMLElement;
  const code = takeLoginCode();
  let refused: unknown = null;
  if (code) await exchange(code).catch((error: unknown) => (refused = error));
  prepare(path.value);
  try {
    await loadMe();
  } catch (error) {
    const problem = asProblem(error);
    if (problem.status !== 401) {
      render(
        <main class="alone">
          <Fault error={problem} retry={() => reload(ownHref(place.value.url) ?? urls.overview())} />
        </main>,
        root,
      );
      return;
    }
    loggedOut.value = true;
  }
  if (refused && loggedOut.value) loginFault.value = asProblem(refused);
  render(<Shell />, root);
  if (!loggedOut.value) startStream();
}

void start();
