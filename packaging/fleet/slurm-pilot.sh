#!/bin/sh
#SBATCH --job-name=haft-worker
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
# A pilot job: a worker for as long as Slurm gives it a node. Two minutes before its
# time is up it is asked to end, and what it had goes on elsewhere. As many as you like:
# sbatch --array=1-50 slurm-pilot.sh
set -eu
: "${HAFT_FLEET:?where the store is}"
haft fleet worker --slots 8 --drain --root "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}/haft-fleet" &
worker=$!
trap 'kill -TERM "$worker"; wait "$worker"; exit' TERM
wait "$worker"
