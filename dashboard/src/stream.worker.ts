// The SharedWorker: one stream for all tabs of a browser. A browser opens six connections to a host over HTTP/1.1; with
// a stream in each tab the seventh tab would hang.

import { StreamHub } from "./stream_hub.ts";

interface Tab {
  readonly port: MessagePort;
  answered: number;
}

const tabs = new Map<MessagePort, Tab>();
const hub = new StreamHub<MessagePort>(
  {
    open: (url) => new EventSource(url),
    later: (milliseconds, act) => {
      const timer = setTimeout(act, milliseconds);
      return () => clearTimeout(timer);
    },
    random: Math.random,
  },
  (port, message) => port.postMessage(message),
);

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0] as MessagePort;
  tabs.set(port, { port, answered: Date.now() });
  port.onmessage = ({ data }: MessageEvent<{ topics?: string[]; bye?: boolean }>) => {
    const tab = tabs.get(port) ?? { port, answered: 0 };
    tab.answered = Date.now();
    tabs.set(port, tab);
    if (data.bye) {
      tabs.delete(port);
      hub.drop(port);
    } else if (data.topics) hub.want(port, data.topics);
  };
  port.start();
};

// A tab that was closed says nothing: what does not answer two pings is dropped.
setInterval(() => {
  for (const [port, tab] of tabs)
    if (Date.now() - tab.answered > 30_000) {
      tabs.delete(port);
      hub.drop(port);
    } else port.postMessage({ kind: "ping" });
}, 10_000);
