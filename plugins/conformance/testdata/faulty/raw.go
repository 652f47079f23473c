// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tenantry/tenantry/plugins/proto"
)

// rawBugs are the bugs that a plugin with the SDK cannot have. A plugin with one of these bugs
// implements the protocol itself. The first name, "raw", is not a bug. The suite must accept the
// plugin with this name.
var rawBugs = []string{
	"raw", "answers-anybody", "answers-any-certificate", "ignores-shutdown", "ends-on-sigint", "ends-on-sigterm",
	"health-waits-for-calls", "long-detail", "line-break-in-cause",
}

// serveRaw serves a plugin that waits for the provider's answer and then reports every read as
// failed. A mail or sending platform has only the method Check. serveRaw returns only with an
// error.
func serveRaw() error {
	ignored := map[string][]os.Signal{"ends-on-sigint": {syscall.SIGTERM}, "ends-on-sigterm": {syscall.SIGINT}}[bug]
	if ignored == nil {
		ignored = []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	}
	signal.Ignore(ignored...)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	certificate, err := newCertificate()
	if err != nil {
		return err
	}
	socket := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "plugin.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	hostRoot := x509.NewCertPool()
	hostRoot.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: hostRoot, ClientAuth: tls.RequireAndVerifyClientCert}
	switch bug {
	case "answers-anybody":
		config.ClientAuth = tls.VerifyClientCertIfGiven
	case "answers-any-certificate":
		config.ClientAuth = tls.RequireAnyClientCert
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.UnaryInterceptor(oneAtATime))
	state := health.NewServer()
	state.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, state)
	proto.RegisterPluginServer(server, rawPlugin{})
	proto.RegisterDNSProviderServer(server, rawDNS{})
	proto.RegisterMailPlatformServer(server, rawMail{})
	proto.RegisterSendingPlatformServer(server, rawSending{})
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Shutdown", Handler: shutdown,
	}}}, nil)
	fmt.Printf("1|1|unix|%s|grpc|%s\n", socket, base64.RawStdEncoding.EncodeToString(certificate.Certificate[0]))
	return server.Serve(listener)
}

func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, BasicConstraintsValid: true, IsCA: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func shutdown(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	if bug != "ignores-shutdown" {
		os.Exit(0)
	}
	return &emptypb.Empty{}, nil
}

var callMu sync.Mutex

// oneAtATime is an interceptor. With the bug "health-waits-for-calls", it runs one call at a time,
// so a health check waits for the calls before it.
func oneAtATime(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if bug == "health-waits-for-calls" {
		callMu.Lock()
		defer callMu.Unlock()
	}
	return next(ctx, request)
}

type (
	rawPlugin struct {
		proto.UnimplementedPluginServer
	}
	rawDNS struct {
		proto.UnimplementedDNSProviderServer
	}
	rawMail struct {
		proto.UnimplementedMailPlatformServer
	}
	rawSending struct {
		proto.UnimplementedSendingPlatformServer
	}
)

func (rawPlugin) Describe(context.Context, *proto.DescribeRequest) (*proto.Description, error) {
	d := description()
	answer := &proto.Description{Name: d.Name, Kind: string(d.Kind), Version: d.Version, Title: d.Title, NameServers: d.NameServers}
	for _, f := range d.Fields {
		answer.Fields = append(answer.Fields, &proto.Field{Name: f.Name, Default: f.Default, Help: f.Help, Account: f.Account, Secret: f.Secret, Required: f.Required})
	}
	return answer, nil
}

func (rawMail) Check(ctx context.Context, r *proto.CheckRequest) (*proto.Done, error) {
	return nil, readFailure(ctx, r.GetConnection())
}

func (rawSending) Check(ctx context.Context, r *proto.SendingCheckRequest) (*proto.SendingReach, error) {
	return nil, readFailure(ctx, r.GetConnection())
}

func (rawDNS) Check(ctx context.Context, r *proto.DNSCheckRequest) (*proto.DNSReach, error) {
	return nil, readFailure(ctx, r.GetConnection())
}

func (rawDNS) Zone(ctx context.Context, r *proto.ZoneRequest) (*proto.DNSZone, error) {
	return nil, readFailure(ctx, r.GetConnection())
}

func (rawDNS) Records(ctx context.Context, r *proto.ZoneRecordsRequest) (*proto.RecordSets, error) {
	return nil, readFailure(ctx, r.GetConnection())
}

// readFailure calls the provider, waits for its answer and returns an outcome.
func readFailure(ctx context.Context, c *proto.Connection) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.GetSettings()["api_url"], nil)
	if err != nil {
		return err
	}
	if response, err := http.DefaultClient.Do(request); err == nil {
		_ = response.Body.Close()
	}
	failure := &proto.Outcome{Kind: proto.Outcome_KIND_DOWN, Detail: "the provider cannot be reached", Cause: "unreachable"}
	switch bug {
	case "long-detail":
		failure.Detail = strings.Repeat("x", 2000)
	case "line-break-in-cause":
		failure.Cause = "unreachable\nunreachable"
	}
	st, err := status.New(codes.FailedPrecondition, "down").WithDetails(failure)
	if err != nil {
		return err
	}
	return st.Err()
}

func isRaw() bool { return slices.Contains(rawBugs, bug) }
