// Which log lines of a function are kept: shown at its executions, and changed there.

import type { Function as FunctionDetail } from "../api.gen.ts";
import { action, send } from "../api.ts";
import type { Data } from "../data.ts";
import { Link } from "../parts/link.tsx";
import { Name } from "../parts/small.tsx";
import { toast, toastError } from "../parts/toast.tsx";
import { can } from "../session.ts";
import { urls } from "../urls.ts";

const SAYS: Readonly<Record<string, string>> = {
  full: "all lines are kept",
  summary: "warnings and errors are kept, and the last 100 lines of an attempt that fails",
  sampled: "all lines of some executions are kept, and of the others warnings, errors and failures",
  off: "no lines are kept",
};
const word = (policy: string) => policy.split(":")[0] ?? policy;

/** What the policy of a function keeps, and for those who operate it the choice of another one. */
export function LogPolicy({ row, data }: { row: FunctionDetail; data: Data<FunctionDetail> }) {
  const change = async (policy: string) => {
    try {
      const found = await send<{ log_policy: string }>(
        "POST",
        action("log-policy", "functions", row.name),
        { log_policy: policy },
        { once: true },
      );
      data.put({ ...row, ...found });
      toast({ text: `The log policy of ${row.name} is ${found.log_policy}` });
    } catch (error) {
      toastError(error);
    }
  };
  return (
    <p class="pair">
      {can("operate") ? (
        <label class="pair">
          Log lines{" "}
          <select value={word(row.log_policy)} onChange={(event) => void change(event.currentTarget.value)}>
            {Object.keys(SAYS).map((one) => (
              <option key={one} value={one}>
                {one === word(row.log_policy) ? row.log_policy : one}
              </option>
            ))}
          </select>
        </label>
      ) : (
        <span>Log lines: {row.log_policy}</span>
      )}
      <span class="dim">{SAYS[word(row.log_policy)]}</span>
    </p>
  );
}

/** Says at the log of an execution that not all lines are kept; nothing where all are. */
export function LogPolicyNotice({ name, policy }: { name: string; policy: string | null }) {
  if (policy === null || policy === "full") return null;
  return (
    <p class="notice">
      The log policy of{" "}
      <Link to={urls.function(name, { tab: "runs" })}>
        <Name text={name} />
      </Link>{" "}
      is {policy}: {SAYS[word(policy)]}.
    </p>
  );
}
