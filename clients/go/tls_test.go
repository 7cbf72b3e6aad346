package monoceros

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// authority signs the certificates of a test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, pool: x509.NewCertPool()}
	a.key = a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// server returns the TLS of a member whose certificate is valid for one name.
func (a *authority) server(name string) []grpc.ServerOption {
	key := a.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(config))}
}

// secured starts members with certificates for these names. Their addresses have the host `localhost`.
func secured(t *testing.T, names ...string) (*members, *authority) {
	m, a := newMembers(t, len(names)), newAuthority(t)
	for at, one := range m.all {
		one.stop()
		one.options = a.server(names[at])
		m.start(one, "127.0.0.1:0")
		one.address = strings.Replace(one.address, "127.0.0.1", "localhost", 1)
	}
	return m, a
}

func TestEachCertificateIsValidForItsOwnAddress(t *testing.T) {
	m, a := secured(t, "localhost", "elsewhere", "localhost")
	tlsConfig := &tls.Config{RootCAs: a.pool}
	m.run(m.targets()[:1], func(c *Config) {
		c.DialOptions = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig))}
	})
	m.serves(m.all[0])
	m.settle()
	m.kill(m.all[0])
	m.serves(m.all[2])
	if seen := m.called(); seen != "m1 m3" {
		t.Errorf("registrations at %s", seen)
	}
}

func TestOneNameMayBeSetForAllAddresses(t *testing.T) {
	m, a := secured(t, "members", "members")
	tlsConfig := &tls.Config{RootCAs: a.pool, ServerName: "members"}
	m.run(m.targets()[:1], func(c *Config) {
		c.DialOptions = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(tlsConfig))}
	})
	m.serves(m.all[0])
	m.settle()
	m.kill(m.all[0])
	m.serves(m.all[1])
}
