void* x265_api_get_216(int d){return 0;}
