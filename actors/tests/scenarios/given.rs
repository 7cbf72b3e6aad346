//! Plays the script in the file that `MONOCEROS_SCRIPT` names, for bug reports and bisection.

use crate::script::Script;
use crate::world::{How, play};

#[test]
fn a_given_script_is_played_alike_in_every_way() {
    let Some(path) = std::env::var_os("MONOCEROS_SCRIPT") else { return };
    let script = Script::parse(&std::fs::read_to_string(path).unwrap());
    let plain = play(&script, How::Plain);
    println!("{}", plain.text);
    assert_eq!(plain.wrong, Vec::<String>::new());
    for how in [How::OneAtATime, How::Watched, How::Later(1)] {
        assert_eq!(play(&script, how), plain, "{how:?}");
    }
}
