// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/exchange.h"

#include <utility>

#include "server/http/connection/exchange_core.h"

namespace ashlar::server {

Exchange::Exchange(std::shared_ptr<ExchangeCore> core) : core_(std::move(core)) {}
Exchange::~Exchange() { core_->abandon(); }

const HttpRequest& Exchange::request() const { return core_->request(); }
void Exchange::add_header(std::string name, std::string value) { core_->add_header(std::move(name), std::move(value)); }
bool Exchange::respond(HttpResponse response) { return core_->respond(std::move(response)); }
bool Exchange::begin_stream(int status, std::string content_type, Headers headers) {
  return core_->begin_stream(status, std::move(content_type), std::move(headers));
}
bool Exchange::send(std::string chunk) { return core_->send(std::move(chunk)); }
size_t Exchange::backlog() const { return core_->backlog(); }
void Exchange::finish() { core_->finish(); }
void Exchange::on_gone(std::function<void()> callback) { core_->on_gone(std::move(callback)); }
bool Exchange::gone() const { return core_->gone(); }

}  // namespace ashlar::server
