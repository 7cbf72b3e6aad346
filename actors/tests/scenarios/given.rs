//! Plays the script in the file named by `MONOCEROS_SCRIPT`, for bug reports and bisection. If
//! `MONOCEROS_LATER` is set, predicates are answered later and the value is the maximum of
//! placements that may wait.

use crate::script::Script;
use crate::world::{How, play};

#[test]
fn a_given_script_is_the_same_in_every_way() {
    let Some(path) = std::env::var_os("MONOCEROS_SCRIPT") else { return };
    let script = Script::parse(&std::fs::read_to_string(path).unwrap());
    if let Ok(in_flight) = std::env::var("MONOCEROS_LATER") {
        let in_flight = in_flight.parse().unwrap();
        for how in [How::Later(in_flight), How::Dice(in_flight)] {
            let played = play(&script, how);
            println!("{}", played.text);
            assert_eq!(played.wrong, Vec::<String>::new(), "{how:?}");
        }
        return;
    }
    let plain = play(&script, How::Plain);
    println!("{}", plain.text);
    assert_eq!(plain.wrong, Vec::<String>::new());
    for how in [How::OneAtATime, How::Watched, How::Later(1)] {
        assert_eq!(play(&script, how), plain, "{how:?}");
    }
}
