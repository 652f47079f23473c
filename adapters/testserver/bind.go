// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
)

// BIND is an authoritative DNS server on loopback. Clients with its TSIG key may change the zones
// by dynamic update, and may transfer them.
type BIND struct {
	*child
	Addr   string // host:port, for UDP and TCP
	Key    string // name of the TSIG key, hmac-sha256
	Secret string // the key in base64
	zones  []string
}

const (
	bindConf = `options {
	directory "$DIR"; pid-file "$DIR/named.pid"; session-keyfile "$DIR/session.key";
	managed-keys-directory "$DIR"; listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; };
	recursion no; dnssec-validation no; notify no; minimal-responses no; allow-transfer { none; };
};
controls { };
key "%s" { algorithm hmac-sha256; secret "%s"; };
`
	bindZone = `zone "%[1]s" { type primary; file "$DIR/%[1]s.zone"; allow-transfer { key %[2]s; }; update-policy { grant %[2]s zonesub ANY; }; };
`
	bindFile = `$TTL 300
@ 3600 SOA ns1.provider.example. hostmaster.provider.example. 1 3600 600 604800 60
@ 3600 NS ns1.provider.example.
@ 3600 NS ns2.provider.example.
`
)

// StartBIND starts a server and waits until it answers for each zone. At first the zones contain
// only SOA and NS records.
func StartBIND(ctx context.Context, zones ...string) (*BIND, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // crypto/rand never fails
	b := &BIND{Addr: "127.0.0.1:" + port, Key: "tenantry-test", Secret: base64.StdEncoding.EncodeToString(secret), zones: zones}
	files := map[string]string{}
	var conf strings.Builder
	fmt.Fprintf(&conf, bindConf, port, b.Key, b.Secret)
	for _, zone := range zones {
		fmt.Fprintf(&conf, bindZone, zone, b.Key)
		files[zone+".zone"] = bindFile
	}
	files["named.conf"] = conf.String()
	b.child, err = startChild(ctx, "named", []string{"-g", "-n", "2", "-c", "$DIR/named.conf"}, files, b.checkAnswers)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// checkAnswers asks for the SOA of every zone. A successful connection would not be enough, because
// the port opens before the zones are loaded.
func (b *BIND) checkAnswers(ctx context.Context) error {
	var d net.Dialer
	for _, zone := range b.zones {
		conn, err := d.DialContext(ctx, "tcp", b.Addr)
		if err != nil {
			return err
		}
		err = askSOA(ctx, conn, zone)
		_ = conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func askSOA(ctx context.Context, conn net.Conn, zone string) error {
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	query := []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(zone, ".") {
		query = append(append(query, byte(len(label))), label...)
	}
	query = append(query, 0, 0, 6, 0, 1)
	binary.BigEndian.PutUint16(query, uint16(len(query)-2))
	if _, err := conn.Write(query); err != nil {
		return err
	}
	var reply [8]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return err
	}
	if reply[5]&15 != 0 || reply[7] == 0 {
		return fmt.Errorf("%s is not served yet", zone)
	}
	return nil
}
