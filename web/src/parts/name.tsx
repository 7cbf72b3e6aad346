import { type Keyed, type Names, nameOf } from "../format/names";

/** The name of something that has a key; the key is its title where it is not the name. */
export function Called({ name, of: key }: { name: string; of: string }) {
  return name === key ? <>{key}</> : <span title={key}>{name}</span>;
}

/** The name of a row. */
export const Name = ({ of: row }: { of: Keyed }) => <Called name={nameOf(row)} of={row.allocationKey} />;

/** The name of a key, where it is known. */
export const NameOfKey = ({ of: key, among: names }: { of: string; among: Names }) => <Called name={names.get(key) ?? key} of={key} />;
