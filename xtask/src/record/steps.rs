//! Instructions for recordings that are made by hand.

pub(super) const OBJECTS: &str = "
1. cargo xtask record server        (prints SERVER and TOKEN; leave it running)
2. cargo run -p optik-api-testkit --example against -- --server $SERVER --token $TOKEN \\
     built_in_kinds_are_defaulted_like_upstream
   cargo run -p optik-api-testkit --example against -- --server $SERVER --token $TOKEN \\
     built_in_validation_errors_match_upstream
   Each prints every case that the server answers in another way, with what it answers.
3. Put that answer into `made` of made.json, or `code`, `message` and `causes` of refused.json.
   A new case begins with name, path, object and, for an update, `changes`: pairs of a JSON
   pointer and a value. U, T, IP, NP and UNIQ stand for what differs from time to time
   (testkit/api/src/suite/defaults_and_validation.rs).
4. cargo xtask record layout
";

pub(super) const POD_SECURITY: &str = "
1. cargo xtask record server        (prints SERVER and TOKEN; leave it running)
2. cargo run -p optik-api-testkit --example against -- --server $SERVER --token $TOKEN \\
     pod_security_follows_namespace_labels
   It prints every case that the server answers in another way, with what it answers. It leaves out
   cases of several steps: send these by hand, with a second between two steps.
3. Put code, message and warnings of the last response into the case in security.json.
4. cargo xtask record layout
";

pub(super) const TABLES: &str = "
1. cargo xtask record server        (prints SERVER and TOKEN; leave it running)
2. cargo run -p optik-api-testkit --example against -- --server $SERVER --token $TOKEN \\
     table_cells_match_upstream
   It prints every object whose cells differ, with the cells of the server.
3. Put them into `cells` of cells.json; null for a cell that depends on the time or on chance.
4. cargo xtask record layout
";

pub(super) const CEL: &str = "
1. cargo xtask record server        (prints SERVER and TOKEN; leave it running)
2. cargo run -p optik-api-testkit --example against -- --server $SERVER --token $TOKEN \\
     cel_functions_match_recorded_results
   It makes one definition whose rules are the expressions of functions.txt that compile, and prints
   every one with another result.
3. An expression that is `refused` needs a definition of its own: the schema `probe()` of
   testkit/api/src/suite/validation_rules.rs with that one rule. The result is the message of the
   422, from `compilation failed` on, with \\n for a line break.
4. authorizer.txt: the same for the variable `authorizer`, as the validation of a
   ValidatingAdmissionPolicy, on a server with --authorization-mode=AlwaysAllow.
";

pub(super) const PATCH: &str = "
1. cargo xtask record server        (prints SERVER and TOKEN; leave it running)
2. For each step of a file, in a namespace `patchdev` of its own, send the write of `verb` with
   `fieldManager` = `manager`, to `subresource` if there is one: `apply` is a PATCH with
   application/apply-patch+yaml, `body`, and `force`; `create` a POST; `update` a PUT of `object`, with
   `sent` as metadata.managedFields if there is one.
3. Write down `code`, and `object` as the server returns it, or `message` and the fields of the
   `causes`. `unowned` has the paths that the server filled in and that no manager owns.
4. strategic.json: for each case a pod with `live` as the env of its container, a strategic merge patch
   with `patch` as the container; `result` is the env that comes back, `message` the error.
5. cargo xtask record layout
";

pub(super) const PROTOBUF: &str = "
1. cargo xtask record server        (prints SERVER and TOKEN; leave it running)
2. For each object that a server returns:
     ask() { curl -sSk --fail -H \"Authorization: Bearer $TOKEN\" -H \"Accept: $2\" \"$SERVER$1\"; }
     ask PATH application/vnd.kubernetes.protobuf | xxd -p | tr -d '\\n'
     ask PATH application/json
   The line is apiVersion, kind, the hexadecimal digits and the JSON, with one space between.
3. Lines without a uid are bodies of requests of kubectl: let `kubectl create` send them through a
   proxy that stores bodies.
";
