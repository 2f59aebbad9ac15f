/* grpcpp_client - what weir is measured beside: calls by gRPC C++, plain and with four client interceptors that pass
 * everything on, doing the same work as bench/client against the same server.
 *
 *   grpcpp_client count PORT SHORT LONG N SCENARIO:SIDE...   of each: prints its name, and runs series of SHORT and of
 *                                                            LONG in turn, N of each, for callgrind to count
 *   grpcpp_client wall PORT LENGTH N SCENARIO                prints "interceptors RATIO": how much longer a series
 *                                                            takes with interceptors than without, the middle one of N
 *
 * The sides are "plain" and "interceptors". Both have the core's own retries switched off, as the bare core has.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

namespace {

constexpr int kInterceptors = 4;
constexpr size_t kLargeBytes = 64 * 1024;
constexpr auto kDeadline = std::chrono::seconds(60);

void Require(bool fine, const char *what) {
  if (!fine) {
    std::fprintf(stderr, "grpcpp_client: %s\n", what);
    std::abort();
  }
}

/* What an interceptor must do at the least. */
class PassOn : public grpc::experimental::Interceptor {
public:
  void Intercept(grpc::experimental::InterceptorBatchMethods *methods) override {
    methods->Proceed();
  }
};

class PassOnFactory : public grpc::experimental::ClientInterceptorFactoryInterface {
public:
  grpc::experimental::Interceptor *
  CreateClientInterceptor(grpc::experimental::ClientRpcInfo *) override {
    return new PassOn;
  }
};

struct Client {
  explicit Client(const std::shared_ptr<grpc::Channel> &channel) : stub(channel) {
  }

  ~Client() {
    queue.Shutdown();
    void *tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
  }

  void *Await() {
    void *tag = nullptr;
    bool ok = false;
    Require(queue.Next(&tag, &ok) && ok, "a batch failed");
    return tag;
  }

  grpc::GenericStub stub;
  grpc::CompletionQueue queue;
};

std::unique_ptr<Client> MakeClient(const std::string &side, const std::string &target) {
  Require(side == "plain" || side == "interceptors", "no side has that name");
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  for (int i = 0; side == "interceptors" && i < kInterceptors; i++) {
    factories.push_back(std::make_unique<PassOnFactory>());
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return std::make_unique<Client>(grpc::experimental::CreateCustomChannelWithInterceptors(
      target, grpc::InsecureChannelCredentials(), arguments, std::move(factories)));
}

grpc::ByteBuffer MakeMessage(const void *bytes, size_t size) {
  grpc::Slice slice(bytes, size, grpc::Slice::STATIC_SLICE);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer SmallMessage() {
  static const char text[] = "thirty-two bytes of a message...";
  return MakeMessage(text, sizeof text - 1);
}

grpc::ByteBuffer LargeMessage() {
  static const char zeros[kLargeBytes] = {};
  return MakeMessage(zeros, sizeof zeros);
}

/* --- calls --- */

struct Exchange {
  void Start(Client *client, const char *method, const grpc::ByteBuffer &request) {
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    reader = client->stub.PrepareUnaryCall(&context, method, request, &client->queue);
    reader->StartCall();
    reader->Finish(&response, &status, this);
  }

  grpc::ClientContext context;
  grpc::ByteBuffer response;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
};

void Unary(Client *client, const char *method, const grpc::ByteBuffer &request) {
  Exchange exchange;
  exchange.Start(client, method, request);
  (void)client->Await();
  Require(exchange.status.ok(), "a call failed");
}

void UnaryOneBatch(Client *client, int n) {
  for (int i = 0; i < n; i++) {
    Unary(client, "/bench.Service/Unary", SmallMessage());
  }
}

void Unary64k(Client *client, int n) {
  for (int i = 0; i < n; i++) {
    Unary(client, "/bench.Service/Echo", LargeMessage());
  }
}

void UnaryAtOnce(Client *client, int n, int n_at_once) {
  int n_started = 0;
  for (; n_started < n_at_once && n_started < n; n_started++) {
    (new Exchange)->Start(client, "/bench.Service/Unary", SmallMessage());
  }
  for (int i = 0; i < n; i++) {
    std::unique_ptr<Exchange> exchange(static_cast<Exchange *>(client->Await()));
    Require(exchange->status.ok(), "a call failed");
    exchange.reset();
    if (n_started < n) {
      (new Exchange)->Start(client, "/bench.Service/Unary", SmallMessage());
      n_started++;
    }
  }
}

void Unary8AtOnce(Client *client, int n) {
  UnaryAtOnce(client, n, 8);
}

void Unary64AtOnce(Client *client, int n) {
  UnaryAtOnce(client, n, 64);
}

/* A call of several batches, each awaited before the next. */
struct Stream {
  Stream(Client *the_client, const char *method) : client(the_client) {
    context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    call = client->stub.PrepareCall(&context, method, &client->queue);
    call->StartCall(this);
    (void)client->Await();
  }

  void Finish() {
    grpc::Status status;
    call->Finish(&status, this);
    (void)client->Await();
    Require(status.ok(), "a stream failed");
  }

  Client *client;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
};

void Receive(Client *client, int n) {
  Stream stream(client, "/bench.Service/Stream");
  const std::string count = std::to_string(n);
  stream.call->WriteLast(MakeMessage(count.data(), count.size()), grpc::WriteOptions(), &stream);
  (void)client->Await();
  for (int i = 0; i < n; i++) {
    grpc::ByteBuffer message;
    stream.call->Read(&message, &stream);
    (void)client->Await();
  }
  stream.Finish();
}

void Send(Client *client, int n) {
  Stream stream(client, "/bench.Service/Collect");
  stream.call->ReadInitialMetadata(&stream);
  (void)client->Await();
  for (int i = 0; i < n; i++) {
    stream.call->Write(SmallMessage(), &stream);
    (void)client->Await();
  }
  stream.call->WritesDone(&stream);
  (void)client->Await();
  Unary(client, "/bench.Service/Finish", SmallMessage()); /* the server answers then */
  grpc::ByteBuffer answer; /* the status is behind it */
  stream.call->Read(&answer, &stream);
  (void)client->Await();
  stream.Finish();
}

using Run = void (*)(Client *client, int n);

Run FindScenario(const std::string &name) {
  static const struct {
    const char *name;
    Run run;
  } scenarios[] = {{"unary_one_batch", UnaryOneBatch},
                   {"unary_64k", Unary64k},
                   {"unary_8_at_once", Unary8AtOnce},
                   {"unary_64_at_once", Unary64AtOnce},
                   {"stream", Receive},
                   {"client_stream", Send}};
  for (const auto &scenario : scenarios) {
    if (name == scenario.name) {
      return scenario.run;
    }
  }
  Require(false, "no scenario has that name");
  return nullptr;
}

int ReadCount(const char *text) {
  const int number = std::atoi(text);
  Require(number > 0, "that is no count");
  return number;
}

} // namespace

/* Callgrind is told to begin with nothing where this begins, and to write down where it ends, so it stays a function
 * of its own, under a name that can be told to it. */
extern "C" __attribute__((noinline)) void series(Run run, Client *client, int length) {
  run(client, length);
}

namespace {

void Count(const std::string &target, const std::string &what, int shorter, int longer, int n) {
  const size_t colon = what.find(':');
  Require(colon != std::string::npos, "a scenario without a side");
  const Run run = FindScenario(what.substr(0, colon));
  const std::unique_ptr<Client> client = MakeClient(what.substr(colon + 1), target);
  run(client.get(), shorter); /* connects */
  for (int i = 0; i < n; i++) {
    series(run, client.get(), shorter);
    series(run, client.get(), longer);
  }
  std::printf("%s %s\n", what.substr(0, colon).c_str(), what.substr(colon + 1).c_str());
}

double TimedNs(Run run, Client *client, int length) {
  const auto started_at = std::chrono::steady_clock::now();
  run(client, length);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - started_at)
      .count();
}

void Wall(const std::string &target, const std::string &scenario, int length, int n) {
  const Run run = FindScenario(scenario);
  const std::unique_ptr<Client> plain = MakeClient("plain", target);
  const std::unique_ptr<Client> intercepted = MakeClient("interceptors", target);
  std::vector<double> ratios;
  run(plain.get(), length);
  run(intercepted.get(), length);
  for (int i = 0; i < n; i++) {
    /* Each goes first half of the time. */
    Client *const first = i % 2 == 0 ? plain.get() : intercepted.get();
    Client *const second = i % 2 == 0 ? intercepted.get() : plain.get();
    const double first_ns = TimedNs(run, first, length);
    const double second_ns = TimedNs(run, second, length);
    ratios.push_back(i % 2 == 0 ? second_ns / first_ns : first_ns / second_ns);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("interceptors %.3f\n", ratios[ratios.size() / 2]);
}

} // namespace

int main(int argc, char **argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "count" && argc > 6) {
    for (int i = 6; i < argc; i++) {
      Count(std::string("ipv4:127.0.0.1:") + argv[2], argv[i], ReadCount(argv[3]),
            ReadCount(argv[4]), ReadCount(argv[5]));
    }
    return 0;
  }
  if (verb == "wall" && argc == 6) {
    Wall(std::string("ipv4:127.0.0.1:") + argv[2], argv[5], ReadCount(argv[3]), ReadCount(argv[4]));
    return 0;
  }
  std::fprintf(stderr, "usage: grpcpp_client count PORT SHORT LONG N SCENARIO:SIDE...\n"
                       "       grpcpp_client wall PORT LENGTH N SCENARIO\n");
  return 2;
}
