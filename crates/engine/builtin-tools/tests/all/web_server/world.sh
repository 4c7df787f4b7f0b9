# A network of its own: every address there is leads to this machine, names are
# answered by world.py, which also serves pages on all of them.
# world.sh DIRECTORY PROGRAM ARGUMENTS...
# Ends with 77 where such a network cannot be made.
dir=$1
here=$(dirname "$0")
shift
{
    ip link set lo up &&
        ip route add local default dev lo &&
        ip -6 route add local default dev lo &&
        printf 'nameserver 127.0.0.1\noptions timeout:2 attempts:1\n' >"$dir/resolv.conf" &&
        printf '127.0.0.1 localhost\n::1 localhost\n10.1.1.1 intranet.test\n' >"$dir/hosts" &&
        printf 'hosts: files dns\n' >"$dir/nsswitch.conf" &&
        mount --bind "$dir/resolv.conf" /etc/resolv.conf &&
        mount --bind "$dir/hosts" /etc/hosts &&
        mount --bind "$dir/nsswitch.conf" /etc/nsswitch.conf
} || exit 77
python3 "$here/world.py" "$dir" &
world=$!
while [ ! -e "$dir/ready" ]; do
    kill -0 $world 2>/dev/null || exit 77
    sleep 0.05
done
SSL_CERT_FILE=$dir/ca.pem "$@"
code=$?
kill $world
exit $code
