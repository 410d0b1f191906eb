#!/usr/bin/env bash
# The Python twin must score an exported model as Passel does.
#   twin_test.sh PASSEL PYTHON TWIN_SCRIPT DATA_DIR
set -euo pipefail
passel=$1 python=$2 twin=$3 data=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$passel" train --data "$data" --out "$folder/run" --max-tickets 200 --quiet
"$passel" export "$folder/run" -o "$folder/model.pt"
ours=$("$passel" eval "$folder/run")
pt=$("$python" "$twin" --data "$data" "$folder/model.pt")
checkpoint=$(ls "$folder"/run/checkpoints/checkpoint-*.safetensors | tail -n 1)
safetensors=$("$python" "$twin" --data "$data" --safetensors "$checkpoint")

echo "passel:      $ours"
echo "twin, .pt:   $pt"
echo "twin, safet: $safetensors"
[ "$ours" = "$pt" ] && [ "$ours" = "$safetensors" ]
