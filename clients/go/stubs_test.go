package monoceros

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	legacy "monoceros.io/clients/go/si/legacy/v0"
	si "monoceros.io/clients/go/si/v1"
	scheduler "monoceros.io/clients/go/si/v1/scheduler"
	mono "monoceros.io/clients/go/v1"
)

// plain removes from a file the parts that compilers write differently.
func plain(file *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	file = proto.Clone(file).(*descriptorpb.FileDescriptorProto)
	file.SourceCodeInfo = nil
	var all func([]*descriptorpb.DescriptorProto)
	all = func(messages []*descriptorpb.DescriptorProto) {
		for _, message := range messages {
			for _, field := range message.Field {
				field.JsonName = nil
			}
			all(message.NestedType)
		}
	}
	all(file.MessageType)
	return file
}

// The test of the repository sets the path of the descriptors built from proto/.
func TestStubsMatchTheProtoFiles(t *testing.T) {
	path := os.Getenv("MONOCEROS_DESCRIPTORS")
	if path == "" {
		t.Skip("skipped: MONOCEROS_DESCRIPTORS does not name a file with the compiled texts")
	}
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var texts descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(bytes, &texts); err != nil {
		t.Fatal(err)
	}
	stubs := map[string]protoreflect.FileDescriptor{}
	for _, file := range []protoreflect.FileDescriptor{
		si.File_monoceros_si_v1_types_proto, scheduler.File_monoceros_si_v1_scheduler_proto,
		legacy.File_monoceros_si_legacy_v0_legacy_proto, mono.File_monoceros_v1_admin_proto,
		mono.File_monoceros_v1_callback_proto,
	} {
		stubs[file.Path()] = file
	}
	for _, text := range texts.File {
		// Other files have no source text: services under their other names.
		if text.GetOptions().GetGoPackage() == "" {
			continue
		}
		stub := stubs[text.GetName()]
		delete(stubs, text.GetName())
		if stub == nil {
			t.Errorf("no stubs of %s: run generate.sh, and name them here", text.GetName())
		} else if !proto.Equal(plain(protodesc.ToFileDescriptorProto(stub)), plain(text)) {
			t.Errorf("the stubs of %s are old: run generate.sh", text.GetName())
		}
	}
	for path := range stubs {
		t.Errorf("%s is no text any more", path)
	}
}

func TestTheManualNamesTheVersionsOfTheModule(t *testing.T) {
	module, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	version := func(before string) string {
		_, after, _ := strings.Cut(string(module), before)
		parts := strings.SplitN(strings.Fields(after)[0], ".", 3)
		return strings.Join(parts[:2], ".")
	}
	expected := fmt.Sprintf("needs at least Go %s, grpc %s and protobuf %s.",
		version("\ngo "), version("google.golang.org/grpc v"), version("google.golang.org/protobuf v"))
	if !strings.Contains(string(manual), expected) {
		t.Errorf("README.md does not say `%s`", expected)
	}
}
