import { type Keyed, type Names, nameOf } from "../format/names";

/** Display name of an object with a key. The key is the title if it differs. */
export function Called({ name, of: key }: { name: string; of: string }) {
  return name === key ? <>{key}</> : <span title={key}>{name}</span>;
}

/** Display name of a row. */
export const Name = ({ of: row }: { of: Keyed }) => <Called name={nameOf(row)} of={row.allocationKey} />;

/** Display name of a key, if it is known. */
export const NameOfKey = ({ of: key, among: names }: { of: string; among: Names }) => <Called name={names.get(key) ?? key} of={key} />;
