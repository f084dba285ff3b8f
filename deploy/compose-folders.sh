#!/bin/sh
# Make the fleet of compose.yaml: fleet/ with the authority (keep it off the hosts), and agents/NAME/ for each container.
set -eu
cd "$(dirname "$0")"
gossamer fleet init --edges compose-edges.txt --name compose --out fleet
for name in north east south west center; do
    mkdir -p "agents/$name/certificates"
    chmod 700 "agents/$name"
    cp fleet/fleet.toml fleet/fleet.roster "agents/$name/"
    cp -p fleet/certificates/ca.pem "fleet/certificates/$name.pem" "fleet/certificates/$name.key" "agents/$name/certificates/"
done
echo "FLEET_USER=$(id -u):$(id -g)" > .env
