// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/tenantry/tenantry/core/fault"
)

// ErrDiskFull means that the disk of the database has no space for a write.
var ErrDiskFull = errors.New("the disk of the database is full")

// OperatorError returns an error whose text tells the operator why the database failed. It returns
// an error that it does not recognize unchanged. The server messages that it quotes contain no
// password.
func OperatorError(err error) error {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	var published *fault.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the database does not answer in time")
	case errors.As(err, &pg) && (pg.Code == "28P01" || pg.Code == "28000"):
		return errors.New("the server refuses the user or its password")
	case errors.As(err, &pg) && pg.Code == "3D000":
		return errors.New("the server has no such database")
	case errors.Is(err, pgconn.ErrStandbyConnection), errors.As(err, &pg) && pg.Code == readOnlyCode:
		return errors.New("the server accepts no writes: it is a standby, or read-only")
	case isDiskFull(err):
		return ErrDiskFull
	case errors.As(err, &pg):
		return fmt.Errorf("the server says %s (%s)", pg.Message, pg.Code)
	case errors.As(err, &lite):
		return errors.New(lite.Error())
	case Unreachable(err):
		return fmt.Errorf("the server does not answer%s%s", atServer(err), networkReason(err))
	case errors.As(err, &published):
		return errors.New(published.Detail)
	default:
		return err
	}
}

// networkReason returns the cause of a failed connection, as the end of a sentence, or "".
func networkReason(err error) string {
	var untrusted *tls.CertificateVerificationError
	var unknown *net.DNSError
	var failed *net.OpError
	switch {
	case errors.As(err, &untrusted):
		return ": its certificate is not trusted"
	case strings.Contains(err.Error(), "refused TLS"):
		return ": it offers no TLS, and sslmode requires it"
	case errors.As(err, &unknown):
		return ": its name does not resolve"
	case errors.As(err, &failed):
		return ": " + failed.Err.Error()
	default:
		return ""
	}
}

// atServer returns the address of a failed attempt to connect, or "" for other errors.
func atServer(err error) string {
	var refused *pgconn.ConnectError
	if !errors.As(err, &refused) {
		return ""
	}
	return " at " + net.JoinHostPort(refused.Config.Host, strconv.Itoa(int(refused.Config.Port)))
}

// RefusesURL reports whether the server refused the connection because it does not know a parameter
// of the URL, for example a misspelt name of sslmode, or because a parameter's value is invalid.
func RefusesURL(err error) bool {
	var refused *pgconn.ConnectError
	var pg *pgconn.PgError
	return errors.As(err, &refused) && errors.As(err, &pg) && (pg.Code == "42704" || pg.Code == "22023")
}
