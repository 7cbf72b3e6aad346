import { useEffect, useRef } from "preact/hooks";
import { giveToken } from "../rest/client";

/** Dialog for the reader's token. */
export function Identity({ why }: { why: string }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <section id="who">
      <h1>Who are you?</h1>
      <p class="note">{why}</p>
      <form
        id="identity"
        onSubmit={(event) => {
          event.preventDefault();
          giveToken(field.current?.value ?? "");
        }}
      >
        <label>
          Token
          <input ref={field} id="token" type="password" autoComplete="off" spellcheck={false} pattern="[!-~]+" required />
        </label>
        <button type="submit">Read</button>
      </form>
      <p class="none">It is kept in this tab until the tab is closed or loaded again, and nowhere else.</p>
    </section>
  );
}
