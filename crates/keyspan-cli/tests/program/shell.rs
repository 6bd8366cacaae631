//! The shell as psql's users know it, on a directory and on a server.

use std::fs;

use crate::place::Place;

impl Place {
    /// What a script prints, with its errors behind.
    fn script(&self, script: &str, more: &[&str]) -> String {
        let (printed, errors) = self.script_at("script.sql", script, more);
        let begin = format!("keyspan:{}:", self.folder.path().join("script.sql").display());
        let without_place = |line: &str| match line.strip_prefix(&begin).and_then(|rest| rest.split_once(": ")) {
            Some((_, message)) => format!("{message}\n"),
            None => format!("{line}\n"),
        };
        printed + &errors.lines().map(without_place).collect::<String>()
    }

    /// What a script in this file prints, and its errors.
    fn script_at(&self, file: &str, script: &str, more: &[&str]) -> (String, String) {
        let file = self.folder.path().join(file);
        fs::write(&file, script).unwrap();
        let output = self.run(&[&["shell", "-f", file.to_str().unwrap()], more].concat());
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

const TABLE: &str = "CREATE TABLE r (s text, n int, note text, PRIMARY KEY (s, n));
    INSERT INTO r VALUES ('a', 1, 'x'), ('a', 2, NULL), ('b', 1, 'it''s');\n";

#[test]
fn variables_and_commands_stand_beside_statements() {
    for place in Place::both() {
        place.script(TABLE, &[]);
        let printed =
            place.script("\\set who b\nSELECT note FROM r WHERE s = :'who'; \\echo :who is :'who'\n", &["-At"]);
        assert_eq!(printed, "it's\nb is 'b'\n");
        let printed = place.script("SELECT n, :v AS v FROM r WHERE s = 'b' \\gx\n", &["-v", "v=7"]);
        assert_eq!(printed, "-[ RECORD 1 ]\nn | 1\nv | 7\n\n");
        let printed = place
            .script("SELECT max(n) AS top, NULL AS none FROM r \\gset my_\n\\echo :my_top :my_none :ROW_COUNT\n", &[]);
        assert_eq!(printed, "2 :my_none 1\n");
        let printed = place.script("SELECT 'SELECT ' || n || ' AS n' FROM r WHERE s = 'a' \\gexec\n", &["-At"]);
        assert_eq!(printed, "1\n2\n");
        let printed = place.script("SELECT 1 AS one \\watch 0.01 c=2\n\\g\n", &["-A"]);
        assert_eq!(printed.matches("one\n1\n(1 row)\n").count(), 3, "{printed}");
        let printed = place.script("\\nonsense\n", &[]);
        assert_eq!(printed, "ERROR:  invalid command \\nonsense\nHINT:  Try \\? for help.\n");
        let wrong = "SELECT missing FROM r;\nSELECT 2 AS two;\n";
        assert!(!place.script(wrong, &[]).contains("two"));
        let printed = place.script(wrong, &["-v", "ON_ERROR_STOP=off"]);
        assert!(printed.contains("two") && printed.contains("\"missing\" does not exist"), "{printed}");
        let printed = place.script("\\c one two\n", &[]);
        assert!(printed.starts_with("ERROR:  \\c takes a keyspace or a URL") && printed.contains("HINT:"), "{printed}");
        let printed = place.script("BEGIN;\nSELECT missing FROM r;\n", &[]);
        assert!(printed.contains("\"missing\" does not exist"), "{printed}");
    }
}

#[test]
fn rows_have_the_form_that_was_set() {
    for place in Place::both() {
        place.script(TABLE, &[]);
        let query = "SELECT n, note FROM r WHERE s = 'a' ORDER BY n;\n";
        let of = |set: &str| {
            let printed = place.script(&format!("{set}\n{query}"), &[]);
            printed.split_once(".\n").map_or(printed.clone(), |(_, rows)| rows.to_string())
        };
        assert_eq!(of("\\pset format unaligned"), "n|note\n1|x\n2|\n(2 rows)\n");
        assert_eq!(of("\\pset format csv"), "n,note\n1,x\n2,\n");
        assert_eq!(of("\\pset format json"), "[{\"n\":1,\"note\":\"x\"},\n {\"n\":2,\"note\":null}]\n");
        assert_eq!(of("\\pset null ~"), " n | note \n---+------\n 1 | x\n 2 | ~\n(2 rows)\n\n");
        assert_eq!(of("\\t"), " 1 | x\n 2 |\n\n");
        let framed = "+---+------+\n| n | note |\n+---+------+\n| 1 | x    |\n| 2 |      |\n+---+------+\n(2 rows)\n\n";
        assert_eq!(of("\\pset border 2"), framed);
        assert_eq!(of("\\pset border 0"), "n note \n- ----\n1 x\n2\n(2 rows)\n\n");
        assert!(
            place.script("\\pset format html\n", &[]).contains("allowed formats are aligned, csv, json, unaligned")
        );
        assert!(place.script("\\pset nothing 1\n", &[]).contains("unknown option: nothing"));
    }
}

#[test]
fn answers_and_data_go_to_files_and_programs() {
    for place in Place::both() {
        place.script(TABLE, &[]);
        let path = |name: &str| place.folder.path().join(name).display().to_string();
        let read = |name: &str| fs::read_to_string(path(name)).unwrap();
        let script = format!(
            "\\pset format csv\nSELECT s FROM r \\g {out}\nSELECT s FROM r WHERE n = 1 \\g |sort -r > {piped}\n\\o {all}\n\
             SELECT 1 AS a;\nSELECT 2 AS b;\n\\o\nSELECT 3 AS c;\n",
            out = path("out"),
            piped = path("piped"),
            all = path("all")
        );
        assert_eq!(place.script(&script, &["-q"]), "c\n3\n");
        assert_eq!(
            (read("out"), read("piped"), read("all")),
            ("s\na\na\nb\n".into(), "s\nb\na\n".into(), "a\n1\nb\n2\n".into())
        );
        let csv = path("r.csv");
        let copies = format!(
            "\\copy r TO '{csv}' (FORMAT csv, HEADER)\n\\copy (SELECT s FROM r WHERE n = 2) TO STDOUT\nDELETE FROM r WHERE s = 'a';\n\
             \\copy r FROM '{csv}' (FORMAT csv, HEADER)\n\\copy r (s, n) FROM PROGRAM 'echo c,5' csv\n\
             \\copy r (s, n) FROM STDIN\nd\t6\n\\.\n\\copy r FROM '/nonexistent'\n"
        );
        let printed = place.script(&copies, &[]);
        assert!(
            printed.starts_with("COPY 3\na\nDELETE 2\nCOPY 3\nCOPY 1\nCOPY 1\nERROR:  /nonexistent: "),
            "{printed}"
        );
        assert_eq!(place.query("SELECT count(*) FROM r"), "5\n");
        fs::create_dir(path("sub")).unwrap();
        fs::write(path("sub/inner.sql"), "SELECT 'inner' AS x;\n").unwrap();
        fs::write(path("sub/outer.sql"), "\\ir inner.sql\n").unwrap();
        assert_eq!(place.script(&format!("\\i {}\n", path("sub/outer.sql")), &["-At"]), "inner\n");
        let edited = place.script(&format!("SELECT 1 AS one\n\\w {}\n\\r\n", path("typed.sql")), &["-q"]);
        assert_eq!((edited.as_str(), read("typed.sql").as_str()), ("", "SELECT 1 AS one\n"));
    }
}

#[test]
fn tables_are_listed_and_described() {
    for place in Place::both() {
        place.script(&format!("{TABLE}CREATE INDEX r_note ON r (note); CREATE VIEW seen AS SELECT s FROM r;"), &[]);
        let printed = place.script("\\d\n", &["-At"]);
        assert_eq!(printed, "public|r|table|keyspan\npublic|seen|view|keyspan\n");
        assert_eq!(place.script("\\dv s*\n", &["-At"]), "public|seen|view|keyspan\n");
        let printed = place.script("\\d r\n", &[]);
        assert!(printed.contains("Table \"public.r\"") && printed.contains("    \"r_note\" "), "{printed}");
        assert!(place.script("\\d seen\n", &[]).contains("View \"public.seen\""));
        assert!(place.script("\\d+ r\n", &[]).contains("CREATE TABLE"));
        let printed = place.script("\\d missing\n", &[]);
        assert!(printed.starts_with("ERROR:  ") && printed.contains("\"missing\""), "{printed}");
        assert!(place.script("\\conninfo\n", &[]).starts_with("You are connected "));
    }
}

#[test]
fn the_files_of_a_table_say_whether_they_are_settled() {
    for place in Place::both() {
        place.script(&format!("{TABLE}CHECKPOINT;\n"), &[]);
        let files = |more: &[&str]| {
            let output = place.run(&[&["files", "r", "--csv"], more].concat());
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let listed = files(&[]);
        let rows: Vec<&str> = listed.lines().collect();
        assert_eq!((rows.len(), rows[0]), (2, "file,holds,rows,bytes,settled,reason"), "{listed}");
        assert!(rows[1].starts_with("seg/") && rows[1].contains(",rows,3,") && rows[1].contains(",yes,"), "{listed}");
        place.script("DELETE FROM r WHERE s = 'a' AND n = 1;\n", &[]);
        let listed = files(&[]);
        assert!(listed.contains(",no,others may have newer versions of its rows"), "{listed}");
        assert!(listed.contains("(in memory),rows,1,0,no,not written out yet"), "{listed}");
        place.script("CHECKPOINT; COMPACT;\n", &[]);
        let listed = files(&[]);
        assert!(listed.contains(",rows,3,") && listed.contains(",no,marks rows as deleted"), "{listed}");
        assert_eq!(listed.lines().count(), 2, "{listed}");
        assert!(place.script("\\! true\nSHOW FILES FROM missing;\n", &[]).contains("does not exist"));
    }
}

#[test]
fn a_program_that_stops_reading_ends_no_script() {
    for place in Place::both() {
        let path = |name: &str| place.folder.path().join(name).display().to_string();
        let all = "SELECT x FROM generate_series(1, 50000) AS g(x)";
        let script = format!(
            "\\pset format csv\n{all} \\g |head -1 > {g}\n\\echo g :ROW_COUNT\n\
             \\o |head -1 > {o}\n{all};\n\\o\n\\echo o\n\
             \\copy ({all}) TO PROGRAM 'head -1 > {copy}'\n\\echo copy :ROW_COUNT\n\
             SELECT 1\n\\w |true\n\\r\n\\echo w\n",
            g = path("g"),
            o = path("o"),
            copy = path("copy")
        );
        assert_eq!(place.script(&script, &["-q"]), "g 50000\no\ncopy 50000\nw\n");
        let read = ["g", "o", "copy"].map(|name| fs::read_to_string(path(name)).unwrap());
        assert_eq!(read, ["x\n", "x\n", "1\n"]);
    }
}

#[test]
fn errors_and_notices_of_a_file_name_it_and_the_line() {
    for place in Place::both() {
        place.script(TABLE, &[]);
        let folder = place.folder.path().display().to_string();
        fs::write(place.folder.path().join("inner.sql"), "SELECT 1;\n\\nonsense\n").unwrap();
        let outer = "COPY r (s, n) FROM STDIN;\nz\t9\n\\.\nSELECT 1,\n  missing\n  FROM r;\n\\ir inner.sql\nSELECT +";
        let (_, errors) = place.script_at("outer.sql", outer, &["-v", "ON_ERROR_STOP=off"]);
        let begins: Vec<String> = errors
            .lines()
            .filter_map(|line| {
                Some(line.strip_prefix("keyspan:")?.strip_prefix(&folder)?.split_once(" ")?.0.to_owned())
            })
            .collect();
        assert_eq!(begins, ["/outer.sql:6:", "/inner.sql:2:", "/outer.sql:8:"], "{errors}");
        // What is typed or piped has no place.
        let output = place.run(&["shell", "-c", "SELECT missing"]);
        assert!(String::from_utf8(output.stderr).unwrap().starts_with("ERROR:  "));
    }
}

#[test]
fn comments_before_a_statement_change_nothing() {
    for place in Place::both() {
        place.script(TABLE, &[]);
        let printed = place.script("-- report\nSELECT 1 AS n;\n/* ( */ (SELECT 2 AS n);\n", &["--format", "json"]);
        assert_eq!(printed, "[{\"n\":1}]\n[{\"n\":2}]\n");
        let script =
            "-- rows\nCOPY r (s, n) FROM STDIN;\nz\t9\n\\.\n-- out\nCOPY (SELECT 1) TO STDOUT;\n-- t\nDROP TABLE r;\n";
        assert_eq!(place.script(script, &[]), "COPY 1\n1\nDROP TABLE\n");
    }
}

#[test]
fn variables_tell_of_copies_and_of_answers_that_are_taken() {
    for place in Place::both() {
        place.script(TABLE, &[]);
        let told = |script: &str| {
            let script = format!("SELECT 1 AS a, 2 AS b \\gset\n{script}\n\\echo :ERROR :ROW_COUNT\n");
            place.script(&script, &["-v", "ON_ERROR_STOP=off", "-q", "-At"])
        };
        let out = place.folder.path().join("out").display().to_string();
        assert_eq!(told(&format!("\\copy r TO '{out}'")), "false 3\n");
        assert_eq!(told("\\copy r (s, n) FROM PROGRAM 'echo c,5' csv"), "false 1\n");
        for fails in [
            "\\copy missing TO STDOUT",
            "\\copy r FROM '/nonexistent'",
            "SELECT missing \\gset",
            "SELECT 1 AS a WHERE false \\gset",
            "SELECT missing \\gexec",
            "SELECT 'SELECT missing' \\gexec",
        ] {
            assert!(told(fails).starts_with("true 0\nERROR:  "), "{fails}: {}", told(fails));
        }
        // What a COPY began to print does not hide the next tag.
        let copy = "\\copy (SELECT 1 / (x - 20000) FROM generate_series(1, 30000) AS g(x)) TO STDOUT";
        let script = &format!("{copy}\nDELETE FROM r WHERE s = 'c';\n");
        let printed = place.script(script, &["-v", "ON_ERROR_STOP=off"]);
        assert!(
            printed.contains("DELETE ") && printed.contains("division by zero"),
            "{}",
            &printed[printed.len() - 200..]
        );
        let printed = place.script("\\set ECHO errors\nSELECT missing;\n", &[]);
        assert!(printed.ends_with("STATEMENT:  SELECT missing;\n"), "{printed}");
    }
}
