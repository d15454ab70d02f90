//! Plays the scripts on a server, and compares the responses with the recording or replaces it.

use clap::Parser;
use optik_api_testkit::{Client, Target};
use optik_differential::{RequestScript, ResponseRecording, compare, run_script};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
struct Args {
    /// For example https://127.0.0.1:6443; any certificate will do.
    #[arg(long)]
    server: String,
    #[arg(long)]
    token: Option<String>,
    /// Where the scripts are.
    #[arg(long, default_value = "compat/differential")]
    scripts: PathBuf,
    /// Where the answers of a real server are.
    #[arg(long, default_value = "recordings/differential")]
    recordings: PathBuf,
    /// Record the responses of the server.
    #[arg(long)]
    write: bool,
    /// Only scripts whose names contain this.
    #[arg(default_value = "")]
    filter: String,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the differences are what this is for")]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok((told, count)) => {
            println!("{told}{count} differences");
            ExitCode::from(u8::from(count > 0))
        }
        Err(cause) => {
            println!("{cause}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<(String, usize), Box<dyn std::error::Error>> {
    let client = Client::new(Target::parse(&args.server, args.token.clone())?);
    let mut told = String::new();
    let mut count = 0;
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&args.scripts)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| is_wanted(path, &args.filter));
    paths.sort();
    for path in paths {
        let script = RequestScript::parse(&std::fs::read_to_string(&path)?)?;
        let found = run_script(&client, &script).await?;
        let name = path.file_stem().unwrap_or_default();
        let kept = args.recordings.join(name).with_extension("txt");
        if args.write {
            std::fs::create_dir_all(&args.recordings)?;
            std::fs::write(kept, found.write())?;
            continue;
        }
        let expected = ResponseRecording::read(&std::fs::read_to_string(kept)?);
        for difference in compare(&expected, &found) {
            told.push_str(&difference.to_string());
            count += 1;
        }
    }
    Ok((told, count))
}

fn is_wanted(path: &Path, filter: &str) -> bool {
    let is_script = path
        .extension()
        .is_some_and(|extension| extension == "http");
    is_script && path.to_string_lossy().contains(filter)
}
